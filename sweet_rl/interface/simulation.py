"""Episodes from Python: any agent, any human, any world, by name or as objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl import tracking
from sweet_rl.cli import progress as running
from sweet_rl.errors import UsageError, no_such
from sweet_rl.evaluation.episodes import episodes_of
from sweet_rl.evaluation.report import Report, report_of
from sweet_rl.interface.grades import grade
from sweet_rl.interface.parts import (
    Tasks,
    check_kinds,
    check_whole,
    in_words_of_python,
    options_for,
    tasks_for,
    world_for,
)
from sweet_rl.interface.players import Agent, Human, Own, OwnEnv, Urls, cast_of, name_of, prompt_for
from sweet_rl.interface.sync import awaited, waiting
from sweet_rl.prompts import prompt_digest
from sweet_rl.records import load_trajectories, trajectory_to_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.runs import finish, open_journal, plan
from sweet_rl.runs.record import Record
from sweet_rl.types import Json, Task, Trajectory
from sweet_rl.worlds import Options, World

_REPAIR = "Give another output_path, the settings of the first run, or overwrite=True."


@waiting
async def play(
    world: World | str = "code",
    task: Task | Mapping[str, Json] | str | Path | None = None,
    *,
    agent: Agent = "auto",
    base_url: Urls = None,
    agent_prompt: str | Path | None = None,
    human: Human = None,
    human_base_url: Urls = None,
    seed: int = 0,
    options: Options | Mapping[str, Json] | None = None,
) -> Trajectory:
    """Play one episode.

    Args:
        world: who plays where; see `simulate` for all of these.
        task: a task, a row of a task file, or the name of a list whose first task is played.
        agent: who acts.
        base_url: where the agent's server is.
        agent_prompt: its instructions.
        human: who answers.
        human_base_url: where the human's server is.
        seed: of the episode.
        options: of the world.

    Raises:
        SweetRLError: as `simulate`.
    """
    kinds = (Task, Mapping, str, Path, type(None))
    check_kinds(
        kinds, "one task (sweet_rl.Task or a dict), or the name of a list; for several: simulate", task=task
    )
    found = await asimulate(
        world,
        [task] if isinstance(task, Task | Mapping) else task,
        agent=agent,
        base_url=base_url,
        agent_prompt=agent_prompt,
        human=human,
        human_base_url=human_base_url,
        num_tasks=1,
        seed=seed,
        options=options,
    )
    return found[0]


@waiting
async def simulate(
    world: World | str = "code",
    tasks: Tasks | None = None,
    *,
    agent: Agent = "auto",
    base_url: Urls = None,
    agent_prompt: str | Path | None = None,
    human: Human = None,
    human_base_url: Urls = None,
    num_tasks: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    options: Options | Mapping[str, Json] | None = None,
    concurrency: int = 100,
    output_path: str | Path | None = None,
    to_continue: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    limit: int | None = None,
) -> list[Trajectory]:
    """Play many episodes at once; what `sweet-rl simulate_interactions` does.

        episodes = sweet_rl.simulate("code", "mini:test", agent="expert", num_tasks=5)
        episodes = sweet_rl.simulate("code", agent="openai/gpt-4o-mini", base_url="https://api.openai.com/v1")
        episodes = sweet_rl.simulate("code", "mini:test", agent=lambda messages: "What does it cost?")

    An agent, a human or a client that is given as an object stays open: its owner closes it. What a name stands
    for is closed in the end.

    Args:
        world: a world's name (`sweet_rl.worlds.names()`), `module:ATTRIBUTE`, or a `World` of your own.
        tasks: the name of a list or a file (`sweet_rl.load_tasks`), or tasks themselves, as `Task` or as rows
            of a task file; default: those that the world measures on.
        agent: who acts, by name: one of the world's agents ("auto" is its first); a model as
            "openai/NAME" (behind `base_url`), "vllm/PATH" (a vLLM server is started), a folder or a hub name (run
            in this process); one of an installed package; `module:ATTRIBUTE`. Or a function of the
            dialogue, plain or async: it takes the messages, as {"role": ..., "content": ...}, the world's
            instructions first (role "system"), and returns the text of its turn. Or a `Policy`; where its
            `system_prompt` is None it is given the world's.
        base_url: where the server of "openai/NAME" is, like "http://127.0.0.1:8000/v1"; several in a list share
            the load. Default: the environment variable OPENAI_BASE_URL. The key is taken from OPENAI_API_KEY.
        agent_prompt: instructions of an agent that has none of its own: a file, or the name of a packaged
            prompt; default: the world's.
        human: who answers: likewise a name ("openai/NAME"; default: the human without a model), a `User`, or a
            function of the dialogue, whose first message (role "system") is what only the human knows.
        human_base_url: where the human's server is, likewise; `human` is then the server's name for the model,
            or left out: the first that it offers.
        num_tasks: how many tasks at most, from the first on.
        repeats: episodes of each task.
        seed: of all draws.
        options: of the world, by name (`{"max_turns": 5}`) or as an object of `world.options`.
        concurrency: episodes at once, and calls of a plain function at once, each in a thread.
        output_path: a .jsonl file that every episode is in before its place goes to the next one; beside it
            the record of the run.
        to_continue: finish what the file holds; episodes that failed are played again.
        overwrite: begin again, in a file that holds something.
        progress: a progress bar.
        limit: another name of num_tasks.

    Returns:
        One trajectory for each episode: first the first repeat of all tasks, in their order, then the second.
        Episodes that failed are among them (`Trajectory.failed`).

    Raises:
        UsageError: a name is unknown, arguments do not fit together, the file exists; an agent or a human
            returned no text, or its function raised something.
        DataError: a task is wrong, or a line of the file.
        ServiceError, StorageError: the run cannot continue; what had finished is in the file.
    """
    check_whole(1, repeats=repeats, concurrency=concurrency)
    check_whole(seed=seed)
    check_kinds(bool, "True or False", to_continue=to_continue, overwrite=overwrite, progress=progress)
    if limit is not None and num_tasks is not None:
        raise UsageError("limit is another name of num_tasks: give one of them.")
    played = world_for(world)
    chosen = options_for(played, options)
    some = tasks_for(played, tasks, limit if num_tasks is None else num_tasks)
    cast = cast_of(played, chosen, agent, base_url, agent_prompt, human, human_base_url, seed)
    check_kinds((str, Path, type(None)), "the path of a .jsonl file", output_path=output_path)
    if output_path is None and (to_continue or overwrite):
        raise UsageError("to_continue and overwrite are about a file: name it with output_path.")
    episodes = schedule(some, repeats, seed=seed)
    if not (to_continue or overwrite):
        chosen.check_place()
    prompt = prompt_for(agent, agent_prompt, played)
    settings = played.settings(chosen) | {"seed": seed}
    if isinstance(agent, str):
        settings |= cast.agent_settings()
    else:
        settings |= {"agent_model": name_of(agent)}
        settings |= {} if prompt is None else {"agent_prompt": prompt_digest(prompt)}
    named = human is None or isinstance(human, str)
    settings |= cast.human_settings() if named else {"env_model": name_of(human)}
    ours, at_once = type(played).__module__.startswith("sweet_rl."), chosen.at_once(concurrency)
    found: dict[tuple[str, int], Trajectory] = {}
    with _recorded(output_path, settings):
        async with AsyncExitStack() as stack:
            path, todo, journal = None, episodes, None
            if output_path is not None:
                path = Path(output_path)
                with in_words_of_python():
                    opened = open_journal(path, to_continue=to_continue, overwrite=overwrite)
                journal = stack.enter_context(opened)
                run = plan(episodes, journal.rows, settings=settings, path=path, repair=_REPAIR)
                todo = list(run.todo)
            playing = await stack.enter_async_context(
                cast.opened(
                    some,
                    concurrency=at_once,
                    path=path,
                    samples={(one.task.task_id, one.seed): one.sample_index for one in todo},
                    user=None if named else Own(human, "human", "", concurrency, stack),
                    policy=None
                    if isinstance(agent, str)
                    else Own(agent, "agent", prompt or "", concurrency, stack),
                )
            )
            if path is not None:
                tracking.writes(path, continues=to_continue)
            bar = stack.enter_context(
                running.progress(len(episodes), len(episodes) - len(todo), unit="episode", quiet=not progress)
            )

            async def on_finished(trajectory: Trajectory) -> None:
                if journal is None:
                    found[trajectory.key] = trajectory
                else:
                    await journal.append_soon(trajectory_to_row(trajectory))
                bar.update()

            if journal is not None:
                stack.push_async_callback(journal.flush)
            await rollout(
                todo,
                make_env=playing.make_env if ours else lambda: OwnEnv(playing.make_env(), played.name),
                policy=playing.policy,
                on_finished=on_finished,
                concurrency=min(at_once, max(1, len(todo))),
                provenance=playing.provenance(settings),
            )
            if journal is not None:
                await journal.flush()
                finish(str(path), run)
    if path is not None:
        return load_trajectories(path)
    return [found[one.task.task_id, one.sample_index] for one in episodes]


aplay = awaited(play)
"""As `play`, on the event loop of the caller."""

asimulate = awaited(simulate)
"""As `simulate`, on the event loop of the caller."""


class Evaluated(NamedTuple):
    """The report, which prints itself as a table, and the graded episodes, which `compare` takes."""

    report: Report
    trajectories: list[Trajectory]


def evaluate(world: World | str = "code", tasks: Tasks | None = None, **settings: Any) -> Evaluated:
    """Simulate, grade, report; what `sweet-rl eval` does, on objects in memory.

        result = sweet_rl.evaluate("code", "mini:test", agent="expert", num_tasks=50, repeats=2)
        print(result.report)

    Args:
        world: as of `simulate`.
        tasks: what is played.
        settings: further arguments of `simulate`: agent, human, num_tasks, and so on. pass@k and pass^k are over
            `repeats`, the episodes of each task.

    Raises:
        SweetRLError: as `simulate` and `grade`.
    """
    played = world_for(world)
    if {"epochs", "repeats"} <= settings.keys():
        raise UsageError("epochs is another name of repeats: give one of them.")
    repeats = settings.setdefault("repeats", settings.pop("epochs", 1))
    for name in settings.keys() - inspect.signature(simulate).parameters.keys():
        raise no_such("argument of evaluate", name, inspect.signature(simulate).parameters)
    graded = grade(simulate(played, tasks, **settings))
    found, players = episodes_of(graded, played), graded[0].provenance
    title = f"{players['agent_model']} in {played.name}" + (f" x {repeats}" if repeats > 1 else "")
    about = {} if played.user.by == "world" else {"human": {"model": players["env_model"]}}
    return Evaluated(report_of(found, title, about=about), graded)


evaluate.__signature__ = inspect.signature(simulate).replace(return_annotation="Evaluated")  # type: ignore[attr-defined]


@contextmanager
def _recorded(path: str | Path | None, settings: Mapping[str, Json]) -> Iterator[None]:
    """Keep the record of a run beside its file, from when that is opened."""
    if path is None:
        yield
        return
    record = Record("simulate", dict(settings), command=f"sweet_rl.simulate(output_path={str(path)!r}, ...)")
    try:
        with tracking.listening(record):
            yield
    except BaseException as error:
        record.close("interrupted" if not isinstance(error, Exception) else "failed", str(error)[:2000])
        raise
    record.close("finished")
