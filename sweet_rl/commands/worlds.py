"""What a world offers by itself: a game in the terminal, its human behind a server, its tasks as a file."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from typing import TextIO

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.flags import Only, flag, group
from sweet_rl.flags.models import KeyVar
from sweet_rl.flags.shared import (
    Listening,
    NumTasks,
    OutputPath,
    Overwriting,
    Quiet,
    Seeded,
    Source,
    Tasks,
    WorldName,
)
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.records import Journal, replace_rows, trajectory_to_row
from sweet_rl.rollout import Episode, LiveEpisode
from sweet_rl.runs import new_file
from sweet_rl.types import AgentTurn, Completion, Failure, FinishReason, Generation, StopReason, Task
from sweet_rl.users.protocol import FaultProfile
from sweet_rl.worlds import Options, World, all_worlds, first_for, load_tasks, names, world_of


@group("The game")
class PlayFlags(WorldName, Tasks, Seeded):
    task: int | None = flag(
        None, "position of the task in the list, counted from 0; default: drawn with --seed.", at_least=0
    )
    oracle: str = flag(
        "embedded",
        "oracle that answers questions: embedded (tables, no model), or your own as module:ATTRIBUTE.",
        only=Only("answered_by", ("oracle",), "worlds in which an oracle answers"),
    )
    record: str | None = flag(
        None, ".jsonl file to which the game is appended as a trajectory, like an agent's."
    )


@recorded("play")
@stage(
    "world",
    "tasks",
    "task",
    "seed",
    defaults={"seed": -1},
    helps={
        "world": "world: its name (an unknown one lists all), or module:ATTRIBUTE.",
        "tasks": "tasks to draw from: one of the world's lists, or a file; default: all tasks of the world, "
        "the test tasks of module:ATTRIBUTE.",
        "seed": "random seed of the task and the world; -1: a different one each time.",
    },
    facets=lambda flags: {"answered_by": {world_of(flags["world"]).user.by}},
    options=WORLD_OPTIONS,
)
def play(flags: PlayFlags, options: Options, /) -> None:
    """Play a game in the terminal: see what an agent sees, type what it would write, get its rewards.

    Example, with everything embedded:

    sweet-rl play WORLD

    At the end the solution is shown. Ctrl-D or Ctrl-C stops the game.
    """
    import asyncio

    world = world_of(flags.world)
    if world.scores.stage != "evaluate_games":
        raise UsageError(
            f"{world.name} grades answers afterwards, and is no game to play in a terminal. Let an agent play, and read what was said: "
            f"sweet-rl simulate_interactions {world.tasks.test} dialogues.jsonl --world {flags.world} --env_model scripted --num_tasks 5, "
            "then sweet-rl view dialogues.jsonl."
        )
    seed = secrets.randbelow(2**31) if flags.seed < 0 else flags.seed
    asyncio.run(play_game(replace(flags, seed=seed), world, options))


async def play_game(flags: PlayFlags, world: World, options: Options) -> None:
    """Play one game to its end, show the solution, record it."""
    task = choose_task(flags, world)
    human = HumanFlags(env_model="scripted" if world.user.by == "human" else flags.oracle)
    cast = Cast(world=world, options=options, human=human, called={"--env_model": "--oracle"})
    async with AsyncExitStack() as stack:
        journal = stack.enter_context(Journal(flags.record)) if flags.record else None
        if flags.record:
            tracking.writes(flags.record, continues=True)
        if world.user.by == "oracle":
            cast.check_human()
        playing = await stack.enter_async_context(cast.opened(None, concurrency=1))
        print(world.player_rules.format(turns=world.turns(options)))
        rows = journal.rows if journal is not None else ()
        repeat = sum(row.get("task_id") == task.task_id for _, row in rows)  # rows have an identity each
        provenance = {"agent_model": "human", "oracle": flags.oracle} | world.settings(options)
        env = playing.make_env()
        stack.push_async_callback(env.close)
        live = LiveEpisode(Episode(task, repeat, flags.seed), env, provenance)
        await _play(live, world)
        trajectory = live.trajectory
        turns = [message for message in trajectory.dialogue_history if isinstance(message, AgentTurn)]
        rewards = sum(turn.reward or 0.0 for turn in turns)
        total = f"{len(turns)} turn{'' if len(turns) == 1 else 's'}, {rewards:g} in all."
        words = {
            StopReason.ENDED: f"The game is over after {total}",
            StopReason.TURN_LIMIT: f"That was the last turn: {total}",
            StopReason.POLICY_FAILED: f"Stopped after {total}",
        }
        first = words.get(trajectory.stop_reason or StopReason.ENDED, f"The game broke off after {total}")
        print(f"\nRight! {total}" if trajectory.extra.get("solved") is True else f"\n{first}")
        if solution := trajectory.task.ground_truth:
            print(f"The solution: {solution}")
        if journal is not None:
            journal.append([trajectory_to_row(trajectory)])
            print(f"Recorded in {flags.record}.")
        if trajectory.failed and trajectory.error is not None and trajectory.error.kind != "stopped":
            raise ServiceError(f"The game failed and has no score: {trajectory.error}")


async def _play(live: LiveEpisode, world: World) -> None:
    """Show what the world says, take lines from the terminal; at its end, or on Ctrl-C, the game stops."""
    transcript = world.transcript()
    seen = await live.begin()
    if seen is not None:
        print(f"\n{seen.messages[-1].content.strip()}\n")
    while seen is not None:
        line = _read_line(f"{seen.turn + 1:>2}> ", sys.stdin)
        if line is None:
            print()
            stopped = Failure("stopped", "the person stopped the game")
            live.fail(EpisodeError(StopReason.POLICY_FAILED, stopped))
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
    source = flags.tasks or (world.tasks.sources[0] if world.name in names() else world.tasks.test)
    tasks = load_tasks(source, world=world)
    if not tasks or not all(task.task_id.startswith(f"{world.name}/") for task in tasks):
        raise UsageError(f"--tasks {source} holds no tasks of {world.name} alone.")
    if flags.task is None:
        return Random(flags.seed).choice(tasks)
    if flags.task >= len(tasks):
        raise UsageError(
            f"--task must be from 0 to {len(tasks) - 1} ({source} has {len(tasks)}), got {flags.task}."
        )
    return tasks[flags.task]


def _read_line(prompt: str, typed: TextIO) -> str | None:
    """A line without its newline; None at the end of the input and on Ctrl-C.

    Ctrl-C does what it does in Python by itself: inside the event loop it would take effect after the line.
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


@group("Latency and faults")
class SimulatorFlags(FaultProfile, Listening, WorldName, KeyVar, Quiet):
    pass


@stage(
    defaults={"world": first_for("dialogue")},
    helps={
        "world": "world whose human is served: its name, or module:ATTRIBUTE.",
        "api_key_var": "environment variable with the key that clients must send; default: no key is required.",
    },
)
def serve_simulator(flags: SimulatorFlags, /) -> None:
    """Serve the scripted human, and an echo, behind OpenAI endpoints.

    Models: scripted plays the human of a world, from its packaged prompt or from any prompt with what that
    human has to know (by default: a Python function and a dialogue); echo repeats the last user message.
    Endpoints: /v1/chat/completions, /v1/completions, /v1/models, /health, and /stats with counters;
    docs/world_code.md lists the supported parts of the API. Latency and faults can be injected, to test
    clients.
    """
    import asyncio

    named = flags.api_key_var
    if named is not None and not os.environ.get(named):
        raise UsageError(f"--api_key_var {named}: this environment variable is not set, or is empty.")
    from sweet_rl.users.server import serve

    api_key = os.environ[named] if named is not None else None
    world = world_of(flags.world)
    speakers = {"scripted": world.user.served(world.name)}
    asyncio.run(serve(speakers, flags, flags.host, flags.at_port, api_key=api_key, quiet=flags.quiet))


@group("Tasks")
class TaskFileFlags(OutputPath, Source, NumTasks, Seeded, Overwriting):
    pass


@recorded("generate_tasks", reads=("source",))
@stage(
    "output_path",
    defaults={"num_tasks": 1000, "source": world_of(first_for("dialogue")).tasks.train},
    helps={
        "source": "one of a world's lists of tasks, with its options after a colon; an unknown name prints all of them."
    },
)
def generate_tasks(flags: TaskFileFlags, /) -> None:
    """Write the tasks of a world's own list to a file, in ColBench's format.

    The same seed gives the same tasks on every machine; the train and test splits share none. Other stages
    also take the lists directly, as --input_path.
    """
    lists = [source for world in all_worlds() for source in world.tasks.sources]
    if flags.source.partition(":")[0] not in lists:
        raise UsageError(f"--source {flags.source!r} is no world's list. There are {', '.join(lists)}.")
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    tasks = load_tasks(flags.source, num_tasks=flags.num_tasks, seed=flags.seed)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {flags.source} are in {flags.output_path}")
