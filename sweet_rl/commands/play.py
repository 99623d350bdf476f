"""A person plays a game in the terminal."""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TextIO

from sweet_rl import tracking
from sweet_rl.chat.formats import ChatFormat
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.flags import Only, flag
from sweet_rl.flags.models import KeyVar
from sweet_rl.flags.shared import Seeded, Tasks, WorldName
from sweet_rl.players import oracle_flags
from sweet_rl.players.cast import Cast
from sweet_rl.records import Journal, trajectory_to_row
from sweet_rl.rollout import Episode, LiveEpisode
from sweet_rl.types import (
    AgentTurn,
    Completion,
    Failure,
    FinishReason,
    Generation,
    StopReason,
    Task,
    Trajectory,
)
from sweet_rl.users import USERS
from sweet_rl.worlds import Options, World, load_tasks, names, world_of

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
    kind = oracle_kind(flags["oracle"], flags["oracle_model"])
    return {"answered_by": {world_of(flags["world"]).user.by}, "oracle": {kind}}


def _games() -> str:
    """The worlds that a person can play, a line each; none whose package cannot be imported."""
    found = {}
    for name in names():
        with suppress(UsageError):
            world = world_of(name)
            if world.user.by != "human":
                found[name] = (type(world).__doc__ or "").strip().partition("\n")[0]
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

    world = world_of(flags.world)
    if world.user.by == "human":
        raise UsageError(f"{world.name} is a dialogue with a human, and no game that a person can play here.")
    if flags.oracle != "embedded" and world.user.by != "oracle":
        raise UsageError(f"{world.name} has no oracle: leave out --oracle.")
    key_in(flags.api_key_var)
    seed = secrets.randbelow(2**31) if flags.seed < 0 else flags.seed
    asyncio.run(play_game(replace(flags, seed=seed), world, options))


def oracle_kind(where: str, model: str | None) -> str:
    """What runs the oracle that was typed: `embedded`, an address, or a model's folder, name or weights."""
    if where == "embedded" or USERS.knows(where):
        return where
    if where.startswith(("http://", "https://")):
        return "openai" if model else "gradio"
    return "seq2seq"


async def play_game(flags: PlayFlags, world: World, options: Options) -> None:
    """Play one game to its end, show the solution, record it."""
    task = choose_task(flags, world)
    async with AsyncExitStack() as stack:
        journal = stack.enter_context(Journal(flags.record)) if flags.record else None
        if flags.record:
            tracking.writes(flags.record, continues=True)
        kind = oracle_kind(flags.oracle, flags.oracle_model)
        human = oracle_flags(kind, flags.oracle, flags.oracle_model, flags.api_key_var)
        cast = Cast(world=world, options=options, human=human)
        playing = await stack.enter_async_context(cast.opened(None, concurrency=1))
        print(world.player_rules.format(turns=world.turns(options)))
        rows = journal.rows if journal is not None else ()
        repeat = sum(
            row.get("task_id") == task.task_id for _, row in rows
        )  # rows have an identity of their own
        provenance = {"agent_model": "human", "oracle": kind} | world.settings(options)
        env = playing.make_env()
        stack.push_async_callback(env.close)
        live = LiveEpisode(Episode(task, repeat, flags.seed), env, provenance)
        await _play(live, world.transcript())
        trajectory = live.trajectory
        print(f"\n{ending(trajectory)}")
        if journal is not None:
            journal.append([trajectory_to_row(trajectory)])
            print(f"Recorded in {flags.record}.")
        if trajectory.failed and trajectory.error is not None and trajectory.error.kind != "stopped":
            raise ServiceError(f"The game failed and has no score: {trajectory.error}")


async def _play(live: LiveEpisode, transcript: ChatFormat) -> None:
    """Show what the world says, take lines from the terminal; at its end, or on Ctrl-C, the game stops."""
    seen = await live.begin()
    if seen is not None:
        print(f"\n{seen.messages[-1].content.strip()}\n")
    while seen is not None:
        line = _read_line(f"{seen.turn + 1:>2}> ", sys.stdin)
        if line is None:
            print()
            live.fail(
                EpisodeError(StopReason.POLICY_FAILED, Failure("stopped", "the person stopped the game"))
            )
            return
        completion = Completion(line, finish_reason=FinishReason.STOP)
        seen = await live.take(Generation(transcript.render(seen.messages), completion))
        *_, turn, last = live.trajectory.dialogue_history
        if isinstance(last, AgentTurn):
            turn = last
        else:
            print(f"\n{last.content.strip()}")
        if isinstance(turn, AgentTurn) and turn.reward is not None:
            print(f"    [{turn.reward:+g}]" if turn.reward else "    [0]")
        print()


def choose_task(flags: PlayFlags, world: World) -> Task:
    """The task that the flags name or draw."""
    source = flags.tasks or world.tasks.sources[0]
    tasks = load_tasks(source, world=world)
    if not tasks or not all(task.task_id.startswith(f"{world.name}/") for task in tasks):
        raise UsageError(f"--tasks {source} holds no tasks of {world.name} alone.")
    if flags.task is None:
        return Random(flags.seed).choice(tasks)
    if not 0 <= flags.task < len(tasks):
        raise UsageError(
            f"--task must be from 0 to {len(tasks) - 1} ({source} has {len(tasks)}), got {flags.task}."
        )
    return tasks[flags.task]


def ending(trajectory: Trajectory) -> str:
    """How the game went, and the solution."""
    turns = sum(message.role == "assistant" for message in trajectory.dialogue_history)
    rewards = [getattr(message, "reward", None) or 0.0 for message in trajectory.dialogue_history]
    total = f"{turns} turn{'' if turns == 1 else 's'}, {sum(rewards):g} in all."
    lines = {
        StopReason.ENDED: f"The game is over after {total}",
        StopReason.TURN_LIMIT: f"That was the last turn: {total}",
        StopReason.POLICY_FAILED: f"Stopped after {total}",
    }
    first = lines.get(trajectory.stop_reason or StopReason.ENDED, f"The game broke off after {total}")
    if trajectory.extra.get("solved") is True:
        first = f"Right! {total}"
    if trajectory.error is not None and trajectory.stop_reason is not StopReason.POLICY_FAILED:
        first += f" ({trajectory.error.kind}: {trajectory.error.detail})"
    solution = trajectory.task.ground_truth
    return f"{first}\nThe solution: {solution}" if solution else first


def _read_line(prompt: str, typed: TextIO) -> str | None:
    """A line without its newline; None at the end of the input and on Ctrl-C.

    Ctrl-C is put back to what Python does by itself: inside the event loop it would only take effect when the
    line is finished.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if typed is sys.stdin and typed.isatty():
            import readline  # noqa: F401 - lines can be edited and recalled

            return input(prompt)
        print(prompt, end="", flush=True)
        line = typed.readline()
        print(line.rstrip("\n"))
        return line.removesuffix("\n") if line else None
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        signal.signal(signal.SIGINT, handler)
