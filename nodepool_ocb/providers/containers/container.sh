# The first process of a container that is launched: prepares a login, then becomes sshd.
#
# Arguments: USER PORT KEYS [OPTIONS OF SSHD...]. KEYS are lines of authorized_keys. The container gets host keys of its own: those of
# the image are known to all containers of it.
set -eu
user=$1 port=$2 keys=$3
shift 3
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
sshd=$(command -v sshd) || { echo "the image has no sshd; build it with openssh-server" >&2; exit 1; }

find_user() { # sets $home and $owner
  while IFS=: read -r name _ uid gid _ home _; do
    [ "$name" = "$user" ] || continue
    owner=$uid:$gid
    return 0
  done </etc/passwd
  return 1
}

find_user || {
  useradd -m -s /bin/sh -p '*' "$user" && find_user ||
    { echo "the image has no user $user, and useradd cannot make it; name another one as username" >&2; exit 1; }
}
if [ -n "$keys" ]; then
  mkdir -p "$home/.ssh"
  printf '%s\n' "$keys" >>"$home/.ssh/authorized_keys"
  chmod 700 "$home/.ssh"
  chmod 600 "$home/.ssh/authorized_keys"
  chown -R "$owner" "$home/.ssh"
fi
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
for kind in ed25519 ecdsa; do # a key of RSA takes seconds
  key=/etc/ssh/ssh_host_${kind}_key
  ssh-keygen -q -t "$kind" -N '' -C '' -f "$key"
  set -- "$@" -h "$key"
done
mkdir -p /run/sshd
exec "$sshd" -D -e -p "$port" "$@"
