"""Episodes from Python: any agent, any human, any world, by name, by address, as objects or functions."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl import tracking
from sweet_rl.chat import as_json, with_system
from sweet_rl.cli import progress as running
from sweet_rl.contracts import Policy, User, held, wrong_answer
from sweet_rl.errors import UsageError, no_such, own_code
from sweet_rl.evaluation.episodes import episodes_of
from sweet_rl.evaluation.report import Report, report_of
from sweet_rl.interface.grades import grade
from sweet_rl.interface.parts import (
    Tasks,
    awaited,
    in_words_of_python,
    options_for,
    tasks_for,
    waiting,
    world_for,
)
from sweet_rl.players import HumanFlags, PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.policies import BASE_URL_VAR, engine_and_name, instructed
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.records import load_trajectories, trajectory_to_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.runs import finish, open_journal, plan
from sweet_rl.runs.record import Record
from sweet_rl.types import (
    Completion,
    Generation,
    Json,
    Message,
    Observation,
    Task,
    Trajectory,
    UserContext,
    UserReply,
)
from sweet_rl.users import USERS
from sweet_rl.worlds import Options, World

Speaker = Callable[[list[dict[str, str]]], str | Awaitable[str]]
"""A function of the dialogue: of messages as {"role": ..., "content": ...}, which says the next one."""

Agent = Policy | Speaker | str
Human = User | Speaker | str | None
Urls = str | Sequence[str] | None

_WITHOUT_MODEL = ("auto", "scripted", "embedded")
"""Names of who answers without a model."""


def name_of(one: Any) -> str:
    """What an agent or a human is called in the settings of a run; None is who answers without a model."""
    if one is None or isinstance(one, str):
        return engine_and_name(one or "auto")[1]
    return str(getattr(one, "name", None) or getattr(one, "__name__", type(one).__name__))


CALLED = {
    "for --world": "of",
    "add --agent transformers, vllm or openai": "write openai/NAME (behind base_url) or vllm/NAME. Your own: module:ATTRIBUTE",
    "--agent openai needs --agent_base_url": "openai/NAME needs base_url",
    "--agent_base_url": "base_url",
    "--agent_model": "agent",
    "--hostname and --port, or --env_base_url": "human_base_url",
    "--env_model": "human",
    ", or name it with --user_prompt_path": "",
}
"""What settings of a cast are called here."""


def _urls(role: str, given: Urls, flag: str, *, needed: bool) -> str | None:
    """Where the servers of a player are; None where nothing is said, and nothing is needed."""
    if given is None and needed and not (given := os.environ.get(BASE_URL_VAR)):
        raise UsageError(
            f"The {role} is behind a server: name it with {flag}='http://127.0.0.1:8000/v1', or in the "
            f"environment variable {BASE_URL_VAR}."
        )
    return given if given is None or isinstance(given, str) else ",".join(given) or None


def cast_of(
    world: World,
    options: Options,
    agent: Agent,
    base_url: Urls,
    agent_prompt: str | Path | None,
    human: Human,
    human_base_url: Urls,
    seed: int,
) -> Cast:
    """Who plays, as names say it; objects and functions are looked at, and left to `Own`.

    Raises:
        UsageError: there is no such agent or human, or an address belongs to neither.
    """
    for role, one, method in (("agent", agent, "act"), ("human", human, "reply")):
        if inspect.isclass(one) or not (
            (one is None and role == "human") or isinstance(one, str) or callable(one) or hasattr(one, method)
        ):
            ways = f"a name, a function of the messages that returns a text, or an object with `async def {method}`"
            raise UsageError(f"{role} must be {ways}; got {one!r}.")
    engine, name = engine_and_name(agent) if isinstance(agent, str) else ("auto", "auto")
    named = PlayerFlags(
        agent=engine,
        agent_model=name,
        agent_base_url=_urls("agent", base_url, "base_url", needed=engine == "openai"),
        agent_api="chat",
        agent_prompt_path=None if agent_prompt is None else str(agent_prompt),
        server_wait_s=0,
    )
    answers = HumanFlags(server_wait_s=0)
    if world.user.by == "world":
        if human is not None or human_base_url is not None:
            raise UsageError(f"{world.name} asks no human: it answers by itself. Leave `human` out.")
    elif human is None or isinstance(human, str):
        engine, name = engine_and_name("auto" if human is None else human)
        url = _urls("human", human_base_url, "human_base_url", needed=engine == "openai")
        if url is None and name not in _WITHOUT_MODEL and not USERS.knows(name):
            hint = "One with a model is behind a server: openai/NAME, with human_base_url."
            raise no_such(f"human of {world.name}", human, (*_WITHOUT_MODEL, *USERS.names()), hint)
        here = "embedded" if world.user.by == "oracle" else "scripted"
        name = here if url is None and name in _WITHOUT_MODEL else name
        answers = replace(answers, env_model=name, env_base_url=url)
    else:
        if human_base_url is not None:
            raise UsageError(
                "human_base_url is the address of a model's server (human='openai/NAME'), and the human "
                f"{name_of(human)} is behind none."
            )
    cast = Cast(world=world, options=options, agent=named, human=answers, seed=seed, called=CALLED)
    if isinstance(agent, str):
        cast.check_agent()
    if base_url is not None and (not isinstance(agent, str) or cast.engine != "openai"):
        raise UsageError(
            "base_url is the address of a model's server (agent='openai/NAME'), and the agent "
            f"{name_of(agent)} is behind none."
        )
    if human is None or isinstance(human, str):
        cast.check_human()
    return cast


class Own:
    """A person's own agent or human, an object or a function of the dialogue; what it says is looked at.

    A function that is no coroutine runs in threads, so that one which waits for a server stops no other
    episode. Its owner closes it.
    """

    def __init__(self, one: Any, role: str, system: str, at_once: int, stack: AsyncExitStack) -> None:
        self.name = name_of(one)
        self.policy, self._one, self._system, self._whose = one, one, system, f"the {role} {self.name}"
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=f"sweet_rl {role}")
        stack.callback(self._threads.shutdown, wait=False, cancel_futures=True)

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
        if hasattr(self._one, "act"):
            return await held(self._whose, self._one, "act", Generation, observation)
        messages = with_system(self._system, observation.messages)
        return Generation(as_json(messages), Completion(await self._say(messages)))

    async def reply(self, context: UserContext) -> UserReply:
        """The human's answer."""
        if hasattr(self._one, "reply"):
            return await held(self._whose, self._one, "reply", UserReply, context)
        return UserReply(await self._say(with_system(context.hidden_information, context.messages)))

    async def close(self) -> None:
        """Do nothing: its owner closes it."""

    async def _say(self, messages: Sequence[Message]) -> str:
        function, whose = self._one, f"T{self._whose[1:]}"
        dialogue = [{"role": one.role, "content": one.content} for one in messages]

        def call() -> Any:  # a StopIteration would never come out of the thread
            with own_code(whose):
                return function(dialogue)

        context = contextvars.copy_context()
        said = await asyncio.get_running_loop().run_in_executor(self._threads, context.run, call)
        if inspect.isawaitable(said):
            with own_code(whose):
                said = await said
        if not isinstance(said, str):
            raise wrong_answer(whose, "the text of its turn, a str", said)
        return said


# ---- playing

_REPAIR = "Give another output_path, the settings of the first run, or overwrite=True."


@waiting
async def play(
    world: World | str = "code", task: Task | Mapping[str, Json] | str | Path | None = None, **settings: Any
) -> Trajectory:
    """Play one episode.

    Args:
        world: as of `simulate`.
        task: a task, a row of a task file, or the name of a list whose first task is played.
        settings: further arguments of `simulate`: agent, human, seed, options, and so on.

    Raises:
        SweetRLError: as `simulate`.
    """
    one = [task] if isinstance(task, Task | Mapping) else task
    return (await asimulate(world, one, num_tasks=1, **settings))[0]


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
    if min(repeats, concurrency) < 1:
        raise UsageError(f"repeats and concurrency must be at least 1; got {repeats} and {concurrency}.")
    if output_path is None and (to_continue or overwrite):
        raise UsageError("to_continue and overwrite are about a file: name it with output_path.")
    played = world_for(world)
    chosen = options_for(played, options)
    some = tasks_for(played, tasks, limit if num_tasks is None else num_tasks)
    cast = cast_of(played, chosen, agent, base_url, agent_prompt, human, human_base_url, seed)
    episodes = schedule(some, repeats, seed=seed)
    if not (to_continue or overwrite):
        chosen.check_place()
    prompt = None  # for an object that has its own instructions
    if isinstance(agent, str) or not hasattr(agent, "act") or instructed(agent) is not None:
        prompt = played.system_prompt if agent_prompt is None else load_prompt(str(agent_prompt))
    elif agent_prompt is not None:
        raise UsageError(f"The agent {agent!r} has its own instructions: leave agent_prompt out.")
    settings = played.settings(chosen) | {"seed": seed}
    if isinstance(agent, str):
        settings |= cast.agent_settings()
    else:
        settings |= {"agent_model": name_of(agent)}
        settings |= {} if prompt is None else {"agent_prompt": prompt_digest(prompt)}
    named = human is None or isinstance(human, str)
    settings |= cast.human_settings() if named else {"env_model": name_of(human)}
    at_once = chosen.at_once(concurrency)
    found: dict[tuple[str, int], Trajectory] = {}
    told = Record("simulate", settings, command=f"sweet_rl.simulate(output_path={str(output_path)!r}, ...)")
    with nullcontext() if output_path is None else told:
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
                running.Bar(len(episodes), len(episodes) - len(todo), unit="episode", quiet=not progress)
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
                make_env=playing.make_env,
                policy=playing.policy,
                on_finished=on_finished,
                concurrency=min(at_once, max(1, len(todo))),
                provenance=playing.provenance(settings),
            )
            if journal is not None:
                await journal.flush()
                finish(str(path), run.order)
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
    if "epochs" in settings:  # another name of repeats
        settings.setdefault("repeats", settings.pop("epochs"))
    if unknown := settings.keys() - inspect.signature(simulate).parameters.keys():
        raise no_such("argument of evaluate", min(unknown), inspect.signature(simulate).parameters)
    repeats = settings.get("repeats", 1)
    graded = grade(simulate(played, tasks, **settings))
    found, players = episodes_of(graded, played), graded[0].provenance
    title = f"{players['agent_model']} in {played.name}" + (f" x {repeats}" if repeats > 1 else "")
    about = {} if played.user.by == "world" else {"human": {"model": players["env_model"]}}
    return Evaluated(report_of(found, title, about=about), graded)


evaluate.__signature__ = inspect.signature(simulate).replace(return_annotation="Evaluated")  # type: ignore[attr-defined]
