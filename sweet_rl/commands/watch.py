"""What is going on below a folder, in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Below, Prices

if TYPE_CHECKING:
    from sweet_rl.commands.frames import Style


@dataclass(frozen=True, kw_only=True)
class WatchFlags(Below, Prices):
    """What is shown."""

    once: bool = flag(False, "show one frame and end; so it is, too, where the output is no terminal.")
    every: float = flag(2.0, "seconds between two looks.", above=0)
    ended: int = flag(8, "so many runs that have ended are shown, the newest.", at_least=0)


@stage(
    "folder",
    helps={
        "prices": "TOML or JSON file with dollars per million tokens of models: what runs have cost by it."
    },
)
def watch(flags: WatchFlags, /) -> None:
    """Watch runs in a terminal: progress, speed, time left, failures, tokens, money, newest numbers, what stands still.

    Every stage writes it into its record (run.json, FILE.run.json) every five seconds; only these are read, and
    nothing is changed. A run whose process is gone says so. Ctrl-C ends the watch, not the runs.

    sweet-rl watch outputs
    """
    import sys
    from pathlib import Path

    from sweet_rl.command_line.terminal import drawn_on
    from sweet_rl.commands.frames import frame
    from sweet_rl.runs.prices import load_prices
    from sweet_rl.runs.watching import Watch

    if not Path(flags.folder).is_dir():
        raise UsageError(f"There is no folder {flags.folder!r}.")
    prices = load_prices(flags.prices) if flags.prices is not None else None
    look = Watch(Path(flags.folder)).look

    def lines() -> list[str]:
        return frame(look(), flags.folder, _style(), ended=flags.ended, prices=prices)

    if not flags.once and sys.stdout.isatty():
        _show(lines, flags.every)
    print("\n".join(lines()), file=drawn_on(sys.stdout))


def _style() -> Style:
    """What the terminal can show, now: its window may change."""
    import os
    import shutil
    import sys

    from sweet_rl.commands.frames import Style

    terminal = sys.stdout.isatty()
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(
        width=shutil.get_terminal_size().columns,
        colours=colours,
        plain="utf" not in (sys.stdout.encoding or "").lower(),
    )


def _show(lines: Callable[[], list[str]], every_s: float) -> None:
    """Frames one over the other, on the terminal's second screen, until Ctrl-C."""
    import shutil
    import sys
    import time

    from sweet_rl.command_line.terminal import drawn_on

    screen = drawn_on(sys.stdout)
    screen.write("\x1b[?1049h\x1b[?25l")
    try:
        while True:
            rows = shutil.get_terminal_size().lines
            shown = lines()
            if len(shown) >= rows:
                shown = [*shown[: rows - 2], f"... {len(shown) - rows + 2} lines more"]
            screen.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J")
            screen.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        pass
    finally:
        screen.write("\x1b[?25h\x1b[?1049l")
        screen.flush()
