"""A policy to begin with, for any world and every method: it imitates the world's scripted agents, or a teacher's episodes.

Made from nothing ("embedded") it is a tiny Llama whose tokens are words of the demonstrations, trained with Muon: with AdamW it needs
four times the steps to learn to copy. Half of the texts it reads begin with the hidden solution, so that a critic that begins with it
can read one. A pretrained model is fine-tuned by `train_sft`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED, SMOLLM2
from sweet_rl.chat.formats import load_tokenizer
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.flags import listed
from sweet_rl.interface import grade, simulate
from sweet_rl.learning.gates import anyhow, habits_of, plays, required, returns_of
from sweet_rl.mini.pretraining import PRETRAINING_TEXTS, Phase, PretrainingTexts, Text
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import Step
from sweet_rl.records import load_trajectories, read_rows, replace_rows
from sweet_rl.types import Message, Task, Trajectory
from sweet_rl.worlds import AgentRequest, World, load_tasks, world_of

if TYPE_CHECKING:
    from sweet_rl.learning.commands import PolicyFlags

STEPS: Final = 600  # updates of 32 demonstrations, of a policy made from nothing
WORDS: Final = r" ?[\p{L}\p{N}_:]+|\s+|[^\s\p{L}\p{N}_:]"  # what is one token at most
_LEARNING_RATE, _MUON = 2e-3, 0.02
# The development tasks, to choose settings by: a share of the training tasks, and so many at most.
_DEVELOPMENT, _TASKS = 0.2, 100


@dataclass(frozen=True, kw_only=True)
class Split:
    """Files of a world's tasks: to learn from, to choose settings by, and to report on."""

    train: Path
    dev: Path
    test: Path


def split_tasks(world: World, folder: Path, *, overwrite: bool = False) -> Split:
    """Write the files, or find them as they would be. A world with few training tasks chooses by these.

    Raises:
        UsageError: a list is empty, or there are other tasks than when the folder was begun.
    """
    split = Split(train=folder / "train.jsonl", dev=folder / "dev.jsonl", test=folder / "test.jsonl")
    train, test = (load_tasks(source, world=world) for source in (world.tasks.train, world.tasks.test))
    for source, tasks in ((world.tasks.train, train), (world.tasks.test, test)):
        if not tasks:
            raise UsageError(f"{source} is empty: `rows` of {world.name} must give tasks.")
    number = min(_TASKS, int(_DEVELOPMENT * len(train)))
    dev, train = (train[-number:], train[:-number]) if number >= 5 else (train, train)
    for path, tasks in ((split.train, train), (split.dev, dev), (split.test, test)):
        rows = [dict(task.row) for task in tasks]
        before = [row for _, row in read_rows(path)] if path.exists() else None
        if before == json.loads(json.dumps(rows)):
            continue
        if before is not None and not overwrite:
            raise UsageError(
                f"`rows` of {world.name} gives other tasks than it gave before ({path}). It must give the same ones each time: draw from "
                "Random(where), say. If you have changed the world, name another folder, or pass --overwrite."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_rows(path, rows)
    return split


def play_steps(name: str, tasks: Path, output: Path, **flags: object) -> list[Step]:
    """The steps that write and grade episodes of an agent; a simulated human is the one that needs no model."""
    world = world_of(name)
    given = {"world": name, "quiet": True, "num_tasks": 1_000_000, **flags}
    if world.user.by == "human" and world.user.scripted:
        given["env_model"] = "scripted"
    steps = [Step(output.name, "simulate_interactions", (str(tasks), str(output)), given)]
    if world.scores.stage != "evaluate_games":  # which would only report what the world has rewarded
        graded = {"k": flags.get("repeats", 1), "overwrite": True}
        name = f"{output.stem}.graded"
        steps.append(Step(name, world.scores.stage, (str(output),), graded, needs=(output.name,)))
    return steps


def able_agents(world: World, tasks: Sequence[Task], agents: Iterable[str]) -> list[str]:
    """Those of these scripted agents that can play the tasks; says why the others cannot."""

    async def make(name: str) -> None:
        made: Any = world.make_agent(AgentRequest(name=name, tasks=tasks, options=world.options()))
        await (await made if inspect.isawaitable(made) else made).close()

    found = []
    for name in agents:
        try:
            asyncio.run(make(name))
            found.append(name)
        except UsageError as error:
            print(f"{name} is left out: {error}", flush=True)
    return found


def demonstration_steps(flags: PolicyFlags, split: Split, folder: Path) -> list[Step]:
    """Episodes of scripted agents on the training tasks, as steps."""
    world, tasks, wanted = world_of(flags.world), load_tasks(split.train), listed(flags.agents)
    agents = able_agents(
        world, tasks, wanted or [name for name in world.agents if name not in world.scores.told]
    )
    if len(agents) < len(wanted):
        raise UsageError(
            f"--agents {flags.agents}: not all of them can play the training tasks, for the reason above."
        )
    if not agents:
        raise UsageError(
            f"{world.name} has no scripted agent to imitate: name some in `agents` of the World and "
            "make them in `make_agent`, or give episodes of a teacher with --demonstrations FILE (sweet-rl simulate_interactions with "
            "--agent_model NAME --agent_base_url URL)."
        )
    how = {"repeats": math.ceil(flags.episodes / len(tasks)), "seed": flags.seed}
    if flags.episodes < len(tasks):
        how["num_tasks"] = flags.episodes
    return [
        step
        for agent in agents
        for step in play_steps(flags.world, split.train, folder / f"{agent}.jsonl", agent_model=agent, **how)
    ]


def made_folder(folder: Path) -> Path:
    """Where what a policy was made of lies: not in its folder, whose digest would then change without the policy."""
    return folder.with_name(f"{folder.name}.made")


def read_demonstrations(files: Sequence[str]) -> list[Trajectory]:
    """Episodes to imitate, without those that failed."""
    found = [one for file in files for one in load_trajectories(file) if not one.failed]
    if not found:
        raise UsageError(f"There are no episodes to imitate in {', '.join(files)}.")
    return found


def texts_of(episodes: Sequence[Trajectory], prompt: Path, steps: int) -> PretrainingTexts:
    """What a policy made from nothing reads: the episodes, every second time with the solution in front."""
    texts = [Text(_messages(one)) for one in episodes]
    told = [Text(_messages(one), one.task.ground_truth) for one in episodes if one.task.ground_truth]

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
    world, made, files = world_of(name), made_folder(folder), listed(flags.demonstrations)
    split = split_tasks(world, made / "tasks", overwrite=flags.overwrite)
    own_texts = flags.pretrain == EMBEDDED and world.name in PRETRAINING_TEXTS and not flags.agents
    if not files and not own_texts:
        demonstrated = demonstration_steps(flags, split, made)
        run_steps(demonstrated, made, fresh=False, small=True)
        files = [str(step.words[1]) for step in demonstrated if step.run == "simulate_interactions"]
    if flags.pretrain == EMBEDDED:
        how: dict[str, Any] = {"steps": flags.steps, "seed": seed}
        learned = Step("imitate", f"{__name__}:imitate", (name, ",".join(files), str(folder)), how)
    else:
        how = {"pretrain": flags.pretrain, "dataset": ",".join(files), "save_path": folder}
        how |= {"ckpt_path": made / "checkpoints", "max_len": 4096, "seed": seed, "eval_fraction": 0}
        # as in configs/sweet/smollm2_sft.yaml; larger models take smaller steps
        how |= {"train_batch_size": 8, "max_tokens_per_batch": 2048}
        how["learning_rate"] = 2e-4 if flags.pretrain == SMOLLM2 else 2e-5
        learned = Step("imitate", "train_sft", (), how)
    run_steps([learned], made, fresh=False)  # for as long as it takes, with its progress in sight
    start, imitated = made / "start.jsonl", read_demonstrations(files) if files else []
    longest = ""
    if said := {
        turn.content for one in imitated for turn in one.dialogue_history if turn.role == "assistant"
    }:
        tokens = load_tokenizer(folder)([*said], add_special_tokens=False)["input_ids"]
        longest = f"; the longest of the demonstrations has {max(map(len, tokens)) + 1} tokens with its end"
    how = {"agent_model": folder, "max_tokens": flags.max_tokens, "repeats": 2, "seed": seed}
    try:
        run_steps(play_steps(name, split.dev, start, **how), made, fresh=False, small=True)
    except ServiceError:
        if start.exists():  # a policy that never ends a turn fills its context: the gate says what to do
            required(islice(plays(load_trajectories(start), habits_of(imitated), {}, world, longest), 1))
        raise
    episodes = load_trajectories(start)
    by_chance = simulate(world, split.dev, agent=anyhow(imitated or episodes), repeats=2, seed=seed)
    floor = returns_of(grade(by_chance), world, "turns by chance")
    required(plays(episodes, habits_of(imitated), floor, world, longest))


def imitate(world: str, demonstrations: str, output: str, *, steps: int = STEPS, seed: int = 0) -> None:
    """Make a policy from nothing, of files with commas between them; of none, by the world's own texts."""
    from sweet_rl.mini.embedded_agent import make_agent

    folder, files, known = Path(output), listed(demonstrations), world_of(world)
    for file in files:
        tracking.reads("demonstrations", file)
    tracking.writes(folder, folder=True)
    prompt = made_folder(folder) / "system_prompt.txt"
    prompt.write_text(known.system_prompt)
    if files:
        make_agent(folder, texts_of(read_demonstrations(files), prompt, steps), seed=seed)
    else:
        texts = replace(resolve_name(PRETRAINING_TEXTS[known.name]), rules=str(prompt), card="")
        make_agent(folder, texts, seed=seed, steps=steps / STEPS)
