"""A policy to begin with, for any world and every method: it imitates the world's scripted agents, or a teacher's episodes.

Made from nothing ("embedded") it is a tiny Llama with words of the demonstrations as tokens, trained with Muon: AdamW alone does not
teach it to copy in the same time. Half of what it reads stands behind the hidden solution, so that a critic that begins with it can
read one. A pretrained model is fine-tuned by `train_sft`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED
from sweet_rl.errors import UsageError
from sweet_rl.flags import listed
from sweet_rl.interface import grade, simulate
from sweet_rl.learning.gates import anyhow, plays, required, returns_of
from sweet_rl.mini.pretraining import Phase, PretrainingTexts, Text
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import Step, in_rounds
from sweet_rl.records import load_trajectories, replace_rows
from sweet_rl.types import Message, Trajectory
from sweet_rl.worlds import World, load_tasks, world_of

if TYPE_CHECKING:
    from sweet_rl.learning.commands import PolicyFlags

STEPS: Final = 600  # updates of 32 demonstrations, of a policy made from nothing
MADE: Final = "made"  # folder of what a policy was made of, inside its own
WORDS: Final = r" ?[\p{L}\p{N}_:]+|\s+|[^\s\p{L}\p{N}_:]"
_LEARNING_RATE, _MUON = 2e-3, 0.02
_DEVELOPMENT, _TASKS = (
    0.2,
    100,
)  # share of the training tasks that are set aside to choose by, and how many at most


@dataclass(frozen=True, kw_only=True)
class Split:
    """Files of a world's tasks: to learn from, to choose settings by, and to report on."""

    train: Path
    dev: Path
    test: Path


def split_tasks(world: World, folder: Path) -> Split:
    """Write the files, unless they are there. A world of few training tasks chooses by these.

    Raises:
        UsageError: a list is empty, two tasks have one name, or tasks are of another world.
    """
    split = Split(train=folder / "train.jsonl", dev=folder / "dev.jsonl", test=folder / "test.jsonl")
    train, test = (load_tasks(source, world=world) for source in (world.tasks.train, world.tasks.test))
    for source, tasks in ((world.tasks.train, train), (world.tasks.test, test)):
        ids = {task.task_id for task in tasks}
        if not tasks or len(ids) < len(tasks):
            what = f"names {len(tasks) - len(ids)} tasks twice" if tasks else "is empty"
            raise UsageError(
                f"{source} {what}. `rows` of {world.name} must give tasks, each with a `task_id` of its own."
            )
    number = min(_TASKS, int(_DEVELOPMENT * len(train)))
    dev = train[-number:] if number >= 5 else train
    for path, tasks in (
        (split.train, train[:-number] if number >= 5 else train),
        (split.dev, dev),
        (split.test, test),
    ):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_rows(path, [dict(task.row) for task in tasks])
    return split


def played(name: str, tasks: Path, output: Path, **flags: object) -> list[Step]:
    """Episodes of some agent, with their rewards, as steps."""
    stage, given = (
        world_of(name).scores.stage,
        {"world": name, "quiet": True, "num_tasks": 1_000_000, **flags},
    )
    steps = [Step(output.name, "simulate_interactions", (str(tasks), str(output)), given)]
    if stage != "evaluate_games":  # rewards come as it is played
        graded = {"k": flags.get("repeats", 1), "overwrite": True}
        steps.append(Step(f"{output.stem}.graded", stage, (str(output),), graded, needs=(output.name,)))
    return steps


def demonstrated(name: str, split: Split, folder: Path, episodes: int, seed: int) -> list[Step]:
    """Demonstrations by each of the world's scripted agents, as steps."""
    world = world_of(name)
    if not world.agents:
        raise UsageError(
            f"{world.name} has no scripted agent to imitate: name some in `agents` of the World and make them in `make_agent`, or give "
            "episodes of a teacher with --demonstrations FILE (sweet-rl simulate_interactions with --agent_model NAME --agent_base_url URL)."
        )
    repeats = math.ceil(episodes / len(load_tasks(split.train)))
    return [
        step
        for agent in world.agents
        for step in played(
            name, split.train, folder / f"{agent}.jsonl", agent_model=agent, repeats=repeats, seed=seed
        )
    ]


def read_demonstrations(files: Sequence[str]) -> list[Trajectory]:
    """Episodes to imitate, without those that failed."""
    found = [one for file in files for one in load_trajectories(file) if not one.failed]
    if not found:
        raise UsageError(f"There are no episodes to imitate in {', '.join(files)}.")
    return found


def texts_of(shown: Sequence[Trajectory], prompt: Path, steps: int) -> PretrainingTexts:
    """What a policy made from nothing reads: demonstrations, every second one behind its solution."""
    texts = [Text(_messages(one)) for one in shown]
    told = [Text(_messages(one), one.task.ground_truth) for one in shown if one.task.ground_truth]

    def drawn(rng: Random) -> Iterator[Text]:
        while True:
            yield rng.choice(told if told and rng.random() < 0.5 else texts)

    corpus = partial(iter, [*texts, *told])
    phase = Phase("demonstrations", drawn, steps, 32, _LEARNING_RATE, _MUON)
    return PretrainingTexts(str(prompt), corpus, (phase,), pieces=WORDS)


def _messages(one: Trajectory) -> tuple[Message, ...]:
    """A dialogue up to the last turn of its agent."""
    messages = [Message(each.role, each.content) for each in one.dialogue_history]
    while messages and messages[-1].role != "assistant":
        messages.pop()
    return tuple(messages)


def make_policy(flags: PolicyFlags) -> None:
    """Demonstrations, imitation, and the gates; what is done already is not done again.

    Raises:
        UsageError: there is nothing to imitate, or a gate fails.
    """
    name, folder, seed = flags.world, Path(flags.output_dir), flags.seed
    world, made, given = world_of(name), folder / MADE, listed(flags.demonstrations)
    split = split_tasks(world, made / "tasks")
    shown = [] if given else demonstrated(name, split, made, flags.episodes, seed)
    files = list(given) or [str(made / f"{agent}.jsonl") for agent in world.agents]
    if flags.pretrain == EMBEDDED:
        learned = Step(
            "imitate",
            f"{__name__}:imitate",
            (name, ",".join(files), str(folder)),
            {"steps": flags.steps, "seed": seed},
        )
    else:
        training = {
            "pretrain": flags.pretrain,
            "dataset": ",".join(files),
            "save_path": folder,
            "ckpt_path": made / "checkpoints",
        }
        learned = Step(
            "imitate",
            "train_sft",
            (),
            training | {"max_len": 4096, "learning_rate": 2e-5, "quiet": True, "seed": seed},
        )
    start = played(
        name,
        split.dev,
        made / "start.jsonl",
        agent_model=folder,
        max_tokens=flags.max_tokens,
        repeats=2,
        seed=seed,
    )
    chain = in_rounds([[(*shown, learned, *start)]])
    run_steps(chain, made, fresh=False, small=True)
    by_chance = simulate(world, split.dev, agent=anyhow(read_demonstrations(files)), repeats=2, seed=seed)
    floor = returns_of(grade(by_chance), world, "turns by chance")
    required(plays(load_trajectories(made / "start.jsonl"), floor, world))


def imitate(world: str, demonstrations: str, output: str, *, steps: int = STEPS, seed: int = 0) -> None:
    """Make a policy from nothing; several files of demonstrations have commas between them."""
    from sweet_rl.mini.embedded_agent import make_agent

    for file in demonstrations.split(","):
        tracking.reads("demonstrations", file)
    folder = Path(output)
    tracking.writes(folder, folder=True)
    played = world_of(world)
    prompt = folder / MADE / "system_prompt.txt"
    prompt.parent.mkdir(parents=True, exist_ok=True)
    prompt.write_text(played.system_prompt)
    make_agent(folder, texts_of(read_demonstrations(demonstrations.split(",")), prompt, steps), seed=seed)
