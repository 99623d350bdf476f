"""Help of a stage, and completion of its flags for shells."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sweet_rl.command_line.reading import flags_here
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import REQUIRED, Flag

_EVERYWHERE: Final = "Like many stages"
"""The last heading: the flags below it are the same for every stage."""

_INDENT: Any = {"initial_indent": "        ", "subsequent_indent": "        ", "break_on_hyphens": False}


def help_text(
    name: str, function: Callable[..., Any], *, whole: bool = True, arguments: Sequence[str] = ()
) -> str:
    """The page of a stage, its flags in groups."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")[0]
    flags = [one for one in flags_here(function, arguments) if one.shown != "never"]
    shown = [one for one in flags if whole or one.shown == "help" or one.default is REQUIRED]
    words = "".join(f" [{one.name} ...]" for one in flags if one.many)
    lines = [f"usage: {name} [--flag value ...]{words}", "", text, ""]
    listing = getattr(function, "listing", None)
    if listing is not None:
        lines += [listing(), ""]
    for group in sorted(dict.fromkeys(one.group for one in shown), key=_EVERYWHERE.__eq__):
        lines.append(f"{group or 'flags'}:")
        for one in shown:
            lines += _explained(one) if one.group == group else ()
        lines.append("")
    options = getattr(function, "options", None)
    if options is not None:
        lines.append(f"A {options.by} has flags of its own: --help beside --{options.by} NAME explains them.")
    if rest := len(flags) - len(shown):
        lines.append(f"{rest} further flag{'s' * (rest > 1)}, for which the defaults mostly do: --help-all.")
    return "\n".join(lines).rstrip()


def _explained(flag: Flag) -> Iterator[str]:
    if flag.many:
        yield f"  {flag.name} ..."
    else:
        yield f"  --{flag.name}{_value(flag)}" + (f"   ({note})" if (note := _note(flag)) else "")
    yield textwrap.fill(flag.help, 100, **_INDENT)


def _value(flag: Flag) -> str:
    if flag.kind is bool:
        return ""
    if flag.choices:
        return f" {'|'.join(map(str, flag.choices))}"
    return f" {flag.kind.__name__.upper()}"


def _note(flag: Flag) -> str:
    """Default, range and further names."""
    default = flag.default
    notes = ["required" if default is REQUIRED else f"default {default}"]
    if default is None or default == "" or default is False:
        notes = []
    notes += [flag.range] if flag.range else []
    notes += [f"also --{alias}" for alias in flag.aliases]
    return "; ".join(notes)


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
