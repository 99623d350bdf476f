"""The command line of `scripts/*.py` and of the console entry `sweet-rl`; stages: `commands.catalogue`."""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from sweet_rl import command_line
from sweet_rl.command_line.help_pages import candidates, help_text, script_for
from sweet_rl.command_line.process import Inert, inert, settle
from sweet_rl.commands.catalogue import COMMANDS, load, stages, values_of
from sweet_rl.errors import BudgetSpent, SweetRLError, UsageError, suggestion
from sweet_rl.openai_client import shown

_HELP = frozenset({"-h", "--help", "--help-all", "--help_all"})


def main() -> None:
    """The console entry: `sweet-rl <stage> --flags`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_overview())
        sys.exit(0)
    if arguments[0] == "--version":
        from sweet_rl import __version__

        print(__version__)
        sys.exit(0)
    if arguments[0] in {"--completion", "--complete"}:
        _complete(*arguments)
        sys.exit(0)
    two = " ".join(arguments[:2]).replace("-", "_")
    known = COMMANDS if arguments[0].replace("-", "_") in COMMANDS or two in COMMANDS else stages()
    groups = {name.partition(" ")[0] for name in known if " " in name}
    words = 2 if arguments[0] in groups else 1
    if words == 2 and (len(arguments) == 1 or arguments[1] in {"-h", "--help", "help"}):
        print(_overview(arguments[0]))
        sys.exit(0)
    typed = " ".join(arguments[:words])
    name = typed.replace("-", "_")
    if name not in known:
        _die(f"there is no stage {typed!r}{suggestion(name, known)}. `sweet-rl --help` lists them all.", 2)
    run(name, arguments[words:])


def run(name: str, arguments: Sequence[str] | None = None) -> None:
    """Run the stage `name` with command-line arguments (default: those of this process), then exit.

    Exit status: 0 done, 1 an error that the message explains, 2 wrong flags, 3 stopped by its budget, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.argv[1:] = map(shown, sys.argv[1:])  # records and trackers keep them
    for stream in (sys.stdout, sys.stderr):  # an id or a model's words may hold what UTF-8 cannot
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = Inert(sys.stdout)  # bars draw on the other stream
    done: list[str] = []

    @atexit.register  # the first to be registered is the last to be called
    def skip_finalization() -> None:
        """FSDP2 keeps gloo's threads, and one that lets go of a tensor as Python finalizes aborts (pytorch#190489)."""
        if done and "WORLD_SIZE" in os.environ:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(0)

    settle()
    try:
        _run(name, load(name), arguments)
        done.append(name)
    except SweetRLError as error:
        _die(str(error), 3 if isinstance(error, BudgetSpent) else 1)
    except KeyboardInterrupt:
        _die("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; exit quietly
        sys.exit(141)


def _run(name: str, function: Callable[..., Any], arguments: list[str]) -> None:
    if not _HELP.isdisjoint(arguments):
        whole = not {"--help-all", "--help_all"}.isdisjoint(arguments)
        beside = [word for word in arguments if word not in _HELP]
        print(help_text(name, function, whole=whole, arguments=beside), flush=True)
        return
    rewrite = getattr(function, "rewrite_arguments", None)  # of a stage with the flags of another parser
    try:
        typed = command_line.read(function, arguments if rewrite is None else rewrite(arguments))
    except UsageError as error:
        _die(str(error), 2)
    from sweet_rl.command_line.recording import typed_here

    words, values = command_line.in_front(function, typed.words, values_of(function, typed))
    typed_here.set(True)
    function(*words, **values)


def _overview(group: str = "") -> str:
    shown = {name: summary for name, summary in stages().items() if name.startswith(group)}
    width = max(map(len, shown))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in shown.items()]
    lines += [
        "",
        "sweet-rl STAGE --help explains a stage's flags, --help-all every one of them.",
        "sweet-rl --completion bash (or zsh, or fish) prints completion for a shell.",
    ]
    if sys.platform != "linux":
        limits = "grading code and rendering pages, which need Linux (docs/install.md)"
        lines.append(f"On {sys.platform} all works but {limits}.")
    return "\n".join(["usage: sweet-rl STAGE [--flags]", "", *lines])


def _complete(what: str, *words: str) -> None:
    """What a shell asks for: its script, or what the last of the words may become."""
    try:
        if what == "--completion":
            print(script_for(words[0] if words else ""), end="")
        else:
            print("\n".join(candidates(words, stages(), load)))
    except UsageError as error:
        _die(str(error), 2)


def _die(message: str, status: int) -> NoReturn:
    print(f"error: {inert(shown(message))}", file=sys.stderr)
    sys.exit(status)
