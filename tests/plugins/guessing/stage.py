"""A stage that only this world has."""

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import Settings, flag
from sweet_rl.records import replace_file


@dataclass(frozen=True, kw_only=True)
class CountFlags(Settings):
    """The numbers."""

    up_to: int = flag(3, "the last one.", at_least=1)
    output: str = flag("numbers.txt", "the file to write.")


@recorded("guessing count")
@stage()
def count(flags: CountFlags, /) -> None:
    """Write numbers to guess."""
    tracking.writes(flags.output)
    replace_file(flags.output, [b"%d\n" % number for number in range(1, flags.up_to + 1)])
