"""The text of `--help` and `--help-all`, from a stage's docstring and flags."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sweet_rl.command_line.reading import flags_here
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
