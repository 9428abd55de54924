"""The script of each shell. It sends the line up to the cursor, and takes one answer a line: KIND<tab>VALUE<tab>HELP.

KIND: ``plain`` is a whole word, ``part`` goes on without a blank, ``file`` and ``dir`` are for the shell to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: How a script asks: the variables, for the program that is completed.
ASK: Final = '_NODEPOOL_OCB_LINE="{line}" {more}_NODEPOOL_OCB_COMPLETE={shell}_complete {program} 2>/dev/null'

#: bash replaces only the text behind the last of COMP_WORDBREAKS, so the script passes these letters on.
BASH: Final = """\
_nodepool_ocb_complete() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            part) COMPREPLY+=("$value"); compopt -o nospace ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(ASK)
}
complete -o nosort -F _nodepool_ocb_complete nodepool-ocb
"""

ZSH: Final = """\
#compdef nodepool-ocb
_nodepool_ocb_complete() {
    local kind value help
    local -a whole parts helped
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) if [[ -n $help ]]; then helped+=("${value//:/\\\\:}:$help"); else whole+=("$value"); fi ;;
            part) parts+=("$value") ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done < <(ASK)
    (( $#helped )) && _describe -V command helped
    (( $#parts )) && compadd -S '' -a parts
    (( $#whole )) && compadd -V names -a whole
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _nodepool_ocb_complete "$@"
else
    compdef _nodepool_ocb_complete nodepool-ocb
fi
"""

FISH: Final = """\
function _nodepool_ocb_complete
    set -l line (commandline -cp)
    for answer in (ASK)
        set -l parts (string split \\t -- $answer)
        switch $parts[1]
            case plain part
                string join \\t -- $parts[2..]
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
        end
    end
end
complete --no-files --command nodepool-ocb --arguments "(_nodepool_ocb_complete)"
"""

SCRIPTS: Final[Mapping[str, str]] = {
    "bash": BASH.replace(
        "ASK",
        ASK.format(
            line="${COMP_LINE:0:COMP_POINT}",
            more='_NODEPOOL_OCB_BREAKS="$COMP_WORDBREAKS" ',
            shell="bash",
            program='"$1"',
        ),
    ),
    "zsh": ZSH.replace(
        "ASK",
        ASK.format(line="${${(j: :)words[1,CURRENT]}%$SUFFIX}", more="", shell="zsh", program='"${words[1]}"'),
    ),
    "fish": FISH.replace("ASK", ASK.format(line="$line", more="", shell="fish", program="nodepool-ocb")),
}
