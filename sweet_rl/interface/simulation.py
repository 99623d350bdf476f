"""Episodes from Python: any agent, any human, any world, by name or as objects."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line import running
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.interface.outputs import opened_output
from sweet_rl.interface.parts import Tasks, agent_of, human_of, name_of, options_for, prompt_for, tasks_for
from sweet_rl.interface.waiting import awaited, waiting
from sweet_rl.prompts import prompt_digest
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Json, Task, Trajectory
from sweet_rl.version import __version__
from sweet_rl.worlds import AgentRequest, Options, World, world_of


@waiting
async def play(
    world: World | str = "code",
    task: Task | Mapping[str, Json] | str | None = None,
    *,
    agent: Policy | str = "auto",
    agent_prompt: str | None = None,
    human: User | str | None = None,
    seed: int = 0,
    options: Options | Mapping[str, Json] | None = None,
) -> Trajectory:
    """Play one episode.

    Args:
        world: who plays where; see `simulate` for all of these.
        task: a task, a row of a task file, or the name of a list whose first task is played.
        agent: who acts.
        agent_prompt: its instructions.
        human: who answers.
        seed: of the episode.
        options: of the world.

    Raises:
        SweetRLError: as `simulate`.
    """
    tasks: Tasks | None = [task] if isinstance(task, (Task, Mapping)) else task
    found = await asimulate(
        world,
        tasks,
        agent=agent,
        agent_prompt=agent_prompt,
        human=human,
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
    agent: Policy | str = "auto",
    agent_prompt: str | None = None,
    human: User | str | None = None,
    num_tasks: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    options: Options | Mapping[str, Json] | None = None,
    concurrency: int = 100,
    output_path: str | Path | None = None,
    to_continue: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> list[Trajectory]:
    """Play many episodes at once; what `sweet-rl simulate_interactions` does.

    Objects that are given stay open: their owner closes them. What a name stands for is closed in the end.

    Args:
        world: a world's name (`sweet_rl.worlds.names()`), `module:ATTRIBUTE`, or a `World` of your own.
        tasks: the name of a list or a file (`sweet_rl.load_tasks`), or tasks themselves, as `Task` or as rows
            of a task file; default: those that the world measures on.
        agent: who acts: a `Policy`; or one of the world's agents ("auto" is its first), one of an installed
            package, `module:ATTRIBUTE`, or a model's folder or hub name, run in this process.
        agent_prompt: instructions of an agent that is named: a file, or the name of a packaged prompt;
            default: the world's.
        human: who answers: a `User`; or a name likewise; default: the human without a model.
        num_tasks: how many at most, from the first on.
        repeats: episodes of each task.
        seed: of all draws.
        options: of the world, by name (`{"max_turns": 5}`) or as an object of `world.options`.
        concurrency: episodes at once.
        output_path: a .jsonl file that every episode is in before its place goes to the next one; beside it
            the record of the run.
        to_continue: finish what the file holds; episodes that failed are played again.
        overwrite: begin again, in a file that holds something.
        progress: a progress bar.

    Returns:
        One trajectory for each episode: first the first repeat of all tasks, in their order, then the second.
        Episodes that failed are among them (`Trajectory.failed`).

    Raises:
        UsageError: a name is unknown, arguments do not fit together, the file exists.
        DataError: a task is wrong, or a line of the file.
        ServiceError, StorageError: the run cannot continue; what had finished is in the file.
    """
    if repeats < 1 or concurrency < 1:
        raise UsageError(f"repeats and concurrency must be at least 1, got {repeats} and {concurrency}.")
    played = world_of(world) if isinstance(world, str) else world
    chosen = options_for(played, options)
    some = tasks_for(played, tasks, num_tasks)
    episodes = schedule(some, repeats, seed=seed)
    if not (to_continue or overwrite):
        played.check_place(chosen)
    settings = played.settings(chosen) | {"seed": seed}
    settings |= {"agent_model": name_of(agent), "env_model": name_of(human)}
    prompt = prompt_for(agent, agent_prompt, played)
    if prompt is not None:
        settings["agent_prompt"] = prompt_digest(prompt)
    with opened_output(
        output_path, episodes, settings, to_continue=to_continue, overwrite=overwrite
    ) as output:
        async with AsyncExitStack() as stack:
            with tracking.role("user"):
                user = await human_of(human, played, stack)
            with tracking.role("agent"):
                wanted = AgentRequest(
                    name="", tasks=some, system_prompt=prompt or "", options=chosen, seed=seed
                )
                policy = await agent_of(agent, wanted, played, stack)
            samples = {(one.task.task_id, one.seed): one.sample_index for one in output.todo}
            place = None if output_path is None else Path(output_path)
            opened = played.open(played.beside(chosen, place, samples), user)
            make_env = await stack.enter_async_context(opened)
            done = len(episodes) - len(output.todo)
            bar = stack.enter_context(
                running.progress(len(episodes), done, unit="episode", quiet=not progress)
            )

            async def on_finished(trajectory: Trajectory) -> None:
                await output.add(trajectory)
                bar.update()

            stack.push_async_callback(output.flush)
            await rollout(
                output.todo,
                make_env=make_env,
                policy=policy,
                on_finished=on_finished,
                concurrency=played.at_once(min(concurrency, max(1, len(output.todo)))),
                provenance={
                    "sweet_rl": __version__,
                    "agent_model": policy.name,
                    "env_model": "nobody" if user is None else user.name,
                    "settings": settings,
                },
            )
    return output.trajectories()


aplay = awaited(play)
"""As `play`, on the event loop of the caller."""

asimulate = awaited(simulate)
"""As `simulate`, on the event loop of the caller."""
