"""Completion of stages, flags and choices in bash, zsh and fish.

`sweet-rl --completion bash` prints what a shell evaluates; it asks `sweet-rl --complete WORDS...` for what
the last word may become, one candidate a line. Nothing printed: the shell offers files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sweet_rl.command_line.reading import flags_here
from sweet_rl.errors import UsageError, no_such

SCRIPTS: Final = {
    "bash": """\
# eval "$(sweet-rl --completion bash)"
_sweet_rl() {
    local IFS=$'\\n'
    COMPREPLY=($(sweet-rl --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sweet_rl sweet-rl
""",
    "zsh": """\
# eval "$(sweet-rl --completion zsh)", behind compinit
_sweet_rl() {
    local -a found
    found=(${(f)"$(sweet-rl --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _sweet_rl sweet-rl
""",
    "fish": """\
# sweet-rl --completion fish | source
function __sweet_rl
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    sweet-rl --complete $words[2..-1] "$last" 2>/dev/null
end
complete -c sweet-rl -a '(__sweet_rl)'
""",
}
"""What each shell evaluates."""


def script_for(shell: str) -> str:
    """What the shell evaluates to complete `sweet-rl`."""
    if shell not in SCRIPTS:
        raise no_such("completion for the shell", shell, SCRIPTS)
    return SCRIPTS[shell]


def candidates(
    words: Sequence[str], stages: Iterable[str], load: Callable[[str], Callable[..., Any]]
) -> list[str]:
    """What the last of the words may become."""
    *before, last = words or [""]
    before = [before[0].replace("-", "_"), *before[1:]] if before else []
    name = next((one for one in stages if before[: one.count(" ") + 1] == one.split()), None)
    if name is None:
        following = {tuple(one.split()[: len(before) + 1]) for one in stages}
        fits = {one[-1] for one in following if list(one[:-1]) == before and len(one) > len(before)}
        return sorted(one for one in fits if one.startswith(last.replace("-", "_")))
    given = before[name.count(" ") + 1 :]
    try:
        flags = flags_here(load(name), given)
    except UsageError:  # a world that is half typed
        flags = flags_here(load(name), ())
    named = {each: one for one in flags for each in (one.name, *one.aliases)}
    asked = named.get(given[-1][2:].replace("-", "_")) if given and given[-1].startswith("--") else None
    if asked is not None and asked.kind is not bool:
        return [str(one) for one in asked.choices if str(one).startswith(last)]
    if not last.startswith("--"):
        return []
    typed = {word[2:].partition("=")[0].replace("-", "_") for word in given if word.startswith("--")}
    listed = [one for one in flags if one.shown != "never" and not one.many and one.name not in typed]
    return [f"--{one.name}" for one in listed if one.name.startswith(last[2:].replace("-", "_"))]
