"""A person plays a game in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag
from sweet_rl.flags.models import KeyVar
from sweet_rl.flags.shared import Seeded, Tasks, WorldName
from sweet_rl.worlds import Options, world_of

_ASKS = Only("answered_by", ("oracle",), "worlds in which an oracle answers")


@dataclass(frozen=True, kw_only=True)
class PlayFlags(WorldName, Tasks, Seeded, KeyVar):
    """The game."""

    task: int | None = flag(
        None, "number of the task in that list, from 0; default: drawn with the seed.", at_least=0
    )
    oracle: str = flag(
        "embedded",
        "who answers questions: embedded (tables, no model), the folder of an encoder-decoder or a .pt file with its weights, or the address of a server: with --oracle_model one that speaks the OpenAI protocol, without it the published gradio server.",
        only=_ASKS,
    )
    oracle_model: str | None = flag(
        None,
        "the server's name for its model; for a .pt file the model that its weights belong to.",
        only=Only("oracle", ("seq2seq", "openai")),
    )
    record: str | None = flag(
        None, "a .jsonl file that the game is appended to as a trajectory, like an agent's."
    )


def _facets(flags: Mapping[str, Any]) -> Facets:
    from sweet_rl.commands.playing import oracle_flags

    oracle = oracle_flags(flags["oracle"], flags["oracle_model"], flags["api_key_var"])
    return {"answered_by": {world_of(flags["world"]).answered_by}, "oracle": {oracle.kind}}


def _games() -> str:
    """The worlds that a person can play, a line each; none whose package cannot be imported."""
    from contextlib import suppress

    from sweet_rl.worlds import names

    found = {}
    for name in names():
        with suppress(UsageError):
            world = world_of(name)
            if world.answered_by != "human":
                found[name] = world.summary
    width = max(map(len, found))
    return "\n".join(
        ["Worlds:", *(f"  {name:<{width}}  {summary}".rstrip() for name, summary in found.items())]
    )


@recorded("play")
@stage(
    "world",
    "tasks",
    "task",
    "seed",
    "oracle",
    "oracle_model",
    "api_key_var",
    defaults={"seed": -1},
    helps={
        "world": "what is played: one of the worlds above, or module:ATTRIBUTE.",
        "tasks": "what may be drawn from, one of the world's lists or a file; default: all tasks of the world.",
        "seed": "draws the task and whatever the world leaves to chance; default -1: another one each time.",
    },
    only={"api_key_var": Only("oracle", ("openai",))},
    facets=_facets,
    options=WORLD_OPTIONS,
    listing=_games,
)
def play(flags: PlayFlags, options: Options, /) -> None:
    """Play a game in the terminal: see what an agent sees, type what it would write, get its rewards.

    Example, with everything embedded:

    sweet-rl play WORLD

    At the end the solution is shown. Ctrl-D or Ctrl-C stops the game.
    """
    import asyncio
    import secrets
    from dataclasses import replace

    from sweet_rl.cli.servers import key_in
    from sweet_rl.commands.playing import play_game

    world = world_of(flags.world)
    if world.answered_by == "human":
        raise UsageError(f"{world.name} is a dialogue with a human, and no game that a person can play here.")
    if flags.oracle != "embedded" and world.answered_by != "oracle":
        raise UsageError(f"{world.name} has no oracle: leave out --oracle.")
    key_in(flags.api_key_var)
    seed = secrets.randbelow(2**31) if flags.seed < 0 else flags.seed
    asyncio.run(play_game(replace(flags, seed=seed), world, options))
