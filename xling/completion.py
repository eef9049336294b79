"""``xling completion bash|zsh|fish``: a script that completes commands, settings and their values in a shell.

The script holds every word, made from the stages and their configurations, so a press of the Tab key starts no Python.
Which words fit is decided by one AWK program, the same in every shell. Generate the script again after an update.

    xling completion bash > ~/.local/share/bash-completion/completions/xling
    xling completion zsh > ~/.zfunc/_xling         # a folder of $fpath
    xling completion fish > ~/.config/fish/completions/xling.fish
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xling.core.commands.pipeline import recipes
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError, unknown
from xling.core.output.command_result import Answer
from xling.core.settings import schema

COMMON = ("--json", "--help", "workers=", "cluster=local", "cluster=slurm", "cluster=debug", "slurm.")

# Rows are "command<TAB>word"; the words typed before the cursor's decide which command's words fit.
_AWK = r"""
BEGIN {
    FS = "\t"
    n = split(before, w, " ")
    i = 1
    if (w[1] == "config") i = 2
    else if (w[1] == "slurm" && w[2] == "plan") i = 3
    one = w[i]
    two = one " " w[i + 1]
}
index($2, cur) == 1 { fits[$1] = fits[$1] $2 "\n" }
{ known[$1] = 1 }
END {
    key = two in known ? two : one in known ? one : i > n ? "" : "-"
    printf "%s", fits[key]
}
"""

_BASH = r"""# Completes xling in bash.
_xling() {
    local line="${COMP_LINE:0:COMP_POINT}" cur before found IFS=$'\n'
    cur="${line##* }"
    before="${line% *}"
    before="${before#*xling}"
    found=$(awk -v before="$before" -v cur="$cur" "$_xling_awk" <<<"$_xling_words")
    COMPREPLY=()
    if [[ -z $found ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "${cur#*=}"))
        return
    fi
    compopt -o nospace 2>/dev/null
    local word
    for word in $found; do
        # Readline takes what follows "=" for a word of its own.
        [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]] && word="${word#"${cur%%=*}="}"
        [[ $word == *[=.] ]] || word+=" "
        COMPREPLY+=("$word")
    done
}
complete -F _xling xling
"""

_ZSH = r"""#compdef xling
# Completes xling in zsh.
_xling() {
    local cur="${words[CURRENT]}" before="${words[2,CURRENT-1]}"
    local -a found open whole
    found=(${(f)"$(awk -v before="$before" -v cur="$cur" "$_xling_awk" <<<"$_xling_words")"})
    if (( ! $#found )); then
        compset -P '*='
        _files
        return
    fi
    open=(${(M)found:#*[=.]})
    whole=(${found:#*[=.]})
    (( $#open )) && compadd -S '' -a open
    (( $#whole )) && compadd -a whole
}
"""

_FISH = r"""# Completes xling in fish.
function __xling_found
    set -l before (commandline -opc)
    set -l cur (commandline -ct)
    printf '%s\n' $_xling_words | awk -v before="$before[2..-1]" -v cur="$cur" "$_xling_awk"
end
# Files where no word fits.
complete -c xling -n 'count (__xling_found) >/dev/null' -f -a '(__xling_found)'
"""


def run(words: Sequence[str]) -> Answer:
    """Return the completion script for a shell.

    Raises:
        UserError: no shell is named, or one that is not known.
    """
    if len(words) != 1:
        raise UserError("xling completion needs a shell", "xling completion bash|zsh|fish")
    if words[0] not in ("bash", "zsh", "fish"):
        raise unknown("shell", words[0], ("bash", "zsh", "fish"))
    rows = list(table())
    return Answer(script(words[0], rows), [list(row) for row in rows])


def script(shell: str, rows: Sequence[tuple[str, str]]) -> str:
    """Build the completion script of a shell around the words."""
    lines = [f"{command}\t{word}" for command, word in rows]
    if shell == "fish":
        quoted = "\n".join(f"    {_quoted(line, fish=True)} \\" for line in lines)
        return f"set -g _xling_awk {_quoted(_AWK, fish=True)}\nset -g _xling_words \\\n{quoted}\n\n{_FISH}"
    tables = f"_xling_awk={_quoted(_AWK)}\n_xling_words={_quoted(chr(10).join(lines))}\n"
    if shell == "bash":
        return tables + _BASH
    head, _, body = _ZSH.partition("\n")  # the first line has to be the first of the file
    return f'{head}\n{tables}{body}\n_xling "$@"\n'


def _quoted(text: str, fish: bool = False) -> str:
    """Quote text in single quotes; only fish allows escaped quotes in them."""
    if fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def table() -> Iterator[tuple[str, str]]:
    """Yield every command with each word that may follow it, "" for the first word."""
    from xling.slurm.commands import ACTIONS

    others = {
        "run": [*recipes()],
        "quickstart": ["out="],
        "encoder": ["data=", "langs=", "out=", "minutes="],
        "config": [],
        "recipes": [],
        "schema": [],
        "why-rerun": [],
    }
    others |= {"completion": ["bash", "zsh", "fish"], "slurm": [*ACTIONS, "plan"]}
    for name in sorted({name.split()[0] for name in STAGES} | set(others)):
        yield "", name
    for name, follow in others.items():
        yield from ((name, word) for word in follow)
    for name, stage in STAGES.items():
        first, _, second = name.partition(" ")
        if second:
            yield first, second
        yield from ((name, word) for word in [*settings(load(stage.config)), *COMMON])


def settings(cls: Any) -> Iterator[str]:
    """Yield ``key=`` of every setting of a configuration, or ``key=value`` where its values are a closed list."""
    for key in schema.keys(cls):
        if key.choices:
            yield from (f"{key.name}={value}" for value in key.choices)
        elif key.kind == "true or false":
            yield from (f"{key.name}=true", f"{key.name}=false")
        else:
            yield f"{key.name}." if key.is_open else f"{key.name}="
        if key.name == "objectives":
            yield from (f"{each.name}=" for keys in schema.objectives().values() for each in keys)
