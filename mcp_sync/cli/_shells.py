"""Completion in bash, zsh and fish, where what click has for them falls short.

bash takes words apart at colons and equals signs, at those of a URL, too, and leaves it to the script to
quote what it puts into a line: names come from servers, and must not become commands. zsh puts a space behind
what is complete, which an argument is not that ends with an equals sign. With click before 8.2, what is typed
in fish is not read as fish would, with its quotes.
"""

from __future__ import annotations

import os

from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

# What bash has set aside as a word of its own is left out of the answers, since it stays as it is.
_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" word="${COMP_WORDS[COMP_CWORD]}" response item value
    local last="${line##*[[:space:]]}" before=""
    [[ $word == [:=]* ]] && word="${word##*[:=]}"
    [[ $last == *"$word" ]] && before="${last%%"$word"}"
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete $1)
    while IFS= read -r item; do
        value="${item#*,}"
        case "${item%%%%,*}" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                value="${value#"$before"}"
                case "$word" in
                    \\"*|\\'*) [[ $value == *[\\\\\\"\\'\\`\\$\\!]* ]] && continue ;;
                    *) printf -v value %%q "$value" ;;
                esac
                [[ $value == *= ]] && compopt -o nospace
                COMPREPLY+=("$value") ;;
        esac
    done <<<"$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a described plain response
    local kind value help
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s)}")
    for kind value help in $response; do
        case $kind in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain) [[ $help == _ ]] && plain+=("$value") || described+=("$value:$help") ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V open -S '' -- ${(M)plain:#*=}
    (( $#plain )) && compadd -U -V unsorted -- ${plain:#*=}
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


@add_completion_class
class Bash(ShellComplete):
    """Completes by the line as it was typed."""

    name = "bash"
    source_template = _BASH

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


@add_completion_class
class Zsh(ZshComplete):
    """Leaves no space behind an equals sign."""

    source_template = _ZSH


@add_completion_class
class Fish(FishComplete):
    """Reads the word that is completed as the shell would."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and that one."""
        words = split_arg_string(os.environ["COMP_WORDS"])[1:]
        (incomplete,) = split_arg_string(os.environ["COMP_CWORD"])[:1] or [""]
        if incomplete and words and words[-1] == incomplete:
            words.pop()
        return words, incomplete
