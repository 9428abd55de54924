# puppet apply on this machine. Needs $manifest $modules $cwd $noop, which come before.

refuse() {
  printf 'task: %s\n' "$1"
  exit "${2:-1}"
}

PATH=$PATH:/opt/puppetlabs/bin # where its maker's own package has it
command -v puppet >/dev/null || refuse "there is no program puppet on this machine; install the package puppet-agent, or puppet" 127
cd -- "$cwd" 2>/dev/null || refuse "there is no directory $cwd"
[ -f "$manifest" ] || refuse "there is no manifest $manifest on this machine"
set -- --detailed-exitcodes --logdest console --color=false
[ -z "$modules" ] || set -- "$@" --modulepath "$modules"
[ -z "$noop" ] || set -- "$@" --noop
puppet apply "$@" "$manifest"
code=$?
case $code in
  0) exit 0 ;;
  2) echo "puppet apply: exit code 2: it changed something"; exit 0 ;;
  1) refuse "puppet apply: exit code 1: the manifest could not be applied" 1 ;;
  4) refuse "puppet apply: exit code 4: resources failed" 4 ;;
  6) refuse "puppet apply: exit code 6: it changed something, and resources failed" 6 ;;
  *) refuse "puppet apply: exit code $code" "$code" ;;
esac
