"""Completion in bash, which takes words apart at colons and equals signs: at those of a URL, too."""

from __future__ import annotations

import os

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

# What bash has set aside as a word of its own is left out of the answers, since it stays as it is.
_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}" word="${COMP_WORDS[COMP_CWORD]}" response item value
    local last="${line##*[[:space:]]}"
    [[ $word == [:=]* ]] && word="${word##*[:=]}"
    local before="${last%%"$word"}"
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete $1)
    for item in $response; do
        value="${item#*,}"
        case "${item%%%%,*}" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                [[ $value == *= ]] && compopt -o nospace
                COMPREPLY+=("${value#"$before"}") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class Bash(ShellComplete):
    """Completes by the line as it was typed."""

    name = "bash"
    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and that one."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        if not words or line[-1:].isspace():
            return words, ""
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Return an answer as the script reads it."""
        return f"{item.type},{item.value}"
