"""Which methods of credit assignment tell what turns were worth: each against measured worth, over worlds and seeds.

In every world one policy plays: the packaged agent in trades, in the others one that `make_policy` made from nothing. A
seed has training episodes of its own, of which SWEET-RL's critic, a blind one, one of shuffled outcomes and ArCHer's
critic are made (its actor stays as it is), and test episodes. Their turns, and candidates for the turns of a quarter of them,
are measured with a fixed number of continuations from every state. Nothing is tuned here: settings are those of `learn`.

Run: python benchmarks/credit_methods.py [--worlds trades=10,meeting] [--seeds 8] [--first_seed 1] [--train_tasks 50] [--test_tasks 8] [--jobs 2]
     [--folder outputs/credit_methods] [--output benchmarks/results/credit_methods.json] [--markdown] [--plot FILE.png]
(minutes of a core for each seed of a world; an interrupted run resumes, others join its output, which --markdown shows)
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from _measure import flags, heading, save, show

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED, model_path
from sweet_rl.commands.archer_config import quoted
from sweet_rl.commands.simulate_interactions import tasks_of
from sweet_rl.credit.compare import auc, joined, picked, spearman
from sweet_rl.credit.compare import cell as number
from sweet_rl.learning.chain import TRAINING
from sweet_rl.learning.policy import play_steps
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import Step
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.statistics import mean_of
from sweet_rl.worlds import world_of

SCORES = ("trained", "untrained", "shuffled")
REPEATS, CANDIDATES, CONTINUATIONS = 8, 6, 32
ARCHER = """template=chat eos_str=null max_context=1024 whole_games=true rollout_size=320 capacity=4000 tau=0.3 epochs=40
    batch_size=64 grad_accum_steps=1 eval_freq=1000000 iterations=1 warmup_iter=1 save_freq=1 keep_checkpoints=1
    critic_lr=1e-3 quiet=true""".split()
PROMPT = "llm_agent_mini_prompt"  # that the packaged agent was taught
TEN_WORDS, TAXI = {"agents": "hasty", "episodes": 400, "steps": 150}, {"agents": "planner", "steps": 100}
EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "worlds"
DIFFERENCES = ["sweet - blind", "sweet - sweet (untrained)", "sweet - sweet (shuffled)"]
DIFFERENCES += ["sweet_paper - sweet_paper (shuffled)", "blind - outcome", "sweet - sweet_paper"]
DIFFERENCES += ["privileged - privileged_other"]
"""Of two methods, seed by seed: hidden information and training are what the first four are about."""
SHOWN = ["outcome", "mt_grpo", "mt_grpo_biased", "trace", "infopo", "privileged", "privileged_other"]
SHOWN += ["sweet", "sweet (untrained)", "sweet_paper", "sweet_paper (shuffled)", "blind", "archer", "oracle"]


class Setup(NamedTuple):
    """A world by its name for commands, its tasks, tokens of a turn, how its policy is made, pairs of a critic, if ArCHer's is made."""

    world: str
    tasks: str
    tokens: int
    made: Mapping[str, Any] = {"steps": 300}
    pairs: int = 1500
    archer: bool = True


WORLDS = {
    **{f"trades={k}": Setup("code", f"mini:trades={k}:{{}}", 48) for k in (1, 10, 40)},
    "twenty_questions": Setup("llm_twenty_questions", "twenty-questions:ten", 16, TEN_WORDS),
    "dangerous_taxi": Setup("dangerous_taxi", "taxi:pickup:{}", 32, TAXI, 125, archer=False),
    "meeting": Setup("meeting:WORLD", "meetings:{}", 32),
}
MEASURES = {
    "turns": {"spearman": spearman, "auc": auc},
    "candidates": {
        what: lambda name, states, what=what: picked(name, what, states)
        for what in ("lost", "repeats", "within")
    },
}


def policy_of(folder: Path, world: str) -> tuple[str, list[Step]]:
    """The policy that plays, and how it is made."""
    if world.startswith("trades"):
        return EMBEDDED, []
    setup, policy = WORLDS[world], str(folder / world / "start")
    how = {**setup.made, "max_tokens": setup.tokens, "seed": 0}
    return policy, [Step(f"{world}/start", "make_policy", (setup.world, policy), how)]


def played(setup: Setup, split: str, output: Path, policy: str, seed: int, tasks: int) -> list[Step]:
    """Episodes of `tasks` tasks, every seed the next ones of the list; of a shorter list, as many of all."""
    source = setup.tasks.format(split)
    listed = len(tasks_of(source, None, None, world_of(setup.world)))
    own = ",".join(str((seed * tasks + place) % listed) for place in range(min(tasks, listed)))
    repeats = REPEATS * tasks // min(tasks, listed) if split == "train" else 2
    how: dict[str, Any] = {"agent_model": policy, "max_tokens": setup.tokens, "sample_ids": own}
    how |= {"agent_prompt_path": PROMPT, "max_turns": 6} if policy == EMBEDDED else {}
    return play_steps(setup.world, Path(source), output, **how, repeats=repeats, seed=seed)


def critics(at: Path, setup: Setup, policy: str, seed: int, tasks: int) -> Iterator[Step]:
    """Training episodes, and the critics that are made of them."""
    episodes = at / "episodes.jsonl"
    yield from played(setup, "train", episodes, policy, seed, tasks)
    training: dict[str, Any] = {"pretrain": policy, "learning_rate": 1e-4, "beta": 100.0, "max_epochs": 2}
    training |= {"mean_log_prob": "trajectory", "seed": seed, "quiet": True, **TRAINING}
    write, drawn = "sweet_rl.learning.chain:write_pairs", {"number": setup.pairs, "seed": seed}
    for critic, run, source, how in (
        ("critic", write, episodes, drawn | {"hidden": True}),
        ("blind", write, episodes, drawn | {"hidden": False}),
        ("shuffled", "credit_methods:turn_round", at / "critic.pairs.jsonl", {"seed": seed}),
    ):
        pairs = at / f"{critic}.pairs.jsonl"
        yield Step(pairs.name, run, (str(source), str(pairs)), how)
        given = {"dataset": pairs, "save_path": at / critic, "ckpt_path": at / f"{critic}.checkpoints"}
        yield Step(critic, "train_dpo", (), training | given)
    if not setup.archer:  # of maps, its 40 steps take ten minutes
        return
    own: dict[str, Any] = {"env_name": setup.world, "tasks": Path(setup.tasks.format("train"))}
    own |= {"eval_tasks": Path(setup.tasks.format("test"))}
    own |= {"policy_lm": Path(model_path(policy)), "critic_lm": Path(model_path(policy))}
    own |= {"max_new_tokens": setup.tokens, "seed": seed, "save_path": at / "archer"}
    own |= {"agent_prompt_path": PROMPT, "max_turns": 6} if policy == EMBEDDED else {}
    typed = (f"{name}={quoted(one) if isinstance(one, Path) else one}" for name, one in own.items())
    yield Step("archer", "run_archer", (*ARCHER, *typed), {"config_name": "default"})


def turn_round(pairs: str, output: str, *, seed: int) -> None:
    """Pairs of which half have the worse dialogue chosen: which half says nothing of the outcomes."""
    tracking.reads("pairs", pairs)
    tracking.writes(output)
    draws, rows = Random(seed), [row for _, row in read_rows(pairs)]
    names = ("chosen", "rejected"), ("rejected", "chosen")  # with their turns, where rows have them
    turned = (
        {f"{b}{key[len(a) :]}": row[key] for a, b in names for key in row if key.startswith(a)}
        for row in rows
    )
    replace_rows(output, [draws.choice(both) for both in zip(rows, turned, strict=True)])


def looked_at(at: Path, setup: Setup, policy: str, seed: int, tasks: int) -> Iterator[Step]:
    """Test episodes and candidates for their turns: what they were worth, and what methods say."""
    turns, candidates = at / "turns" / "played.jsonl", at / "candidates" / "played.jsonl"
    yield from played(setup, "test", turns, policy, seed, tasks)
    quiet: dict[str, Any] = {"seed": seed, "quiet": True}
    how = quiet | {"best_of_n": CANDIDATES, "data_fraction": 0.25, "max_tokens": setup.tokens}
    yield Step("sampled", "sample_best_of_n", (str(turns), str(candidates), policy), how)
    for what, path in (("turns", turns), ("candidates", candidates)):
        how = quiet | {"output_path": path.with_name("measured.jsonl"), "continuations": CONTINUATIONS}
        yield Step(f"{what}.measured", "credit measure", (str(path), policy), how)
        models: dict[str, Any] = {"methods": "all", "agent": policy, "blind_critic": at / "blind"}
        models |= {"archer_run": at / "archer"} if setup.archer else {}
        models |= {"oracle_of": setup.world} if policy == EMBEDDED else {}
        broken = {"methods": "sweet,sweet_paper"}
        critics_of = (models, at / "critic"), (broken, policy), (broken, at / "shuffled")
        for name, (how, critic) in zip(SCORES, critics_of, strict=True):
            own = {"critic": critic, "output_path": path.with_name(f"{name}.jsonl"), "quiet": True}
            yield Step(
                f"{what}.{name}", "credit score", (str(path),), how | own | {"reference_model": policy}
            )


def steps_of(folder: Path, world: str, seeds: Sequence[int], train: int, test: int) -> Iterator[list[Step]]:
    """The steps of a world by seeds, each after the one before it."""
    setup, (policy, first) = WORLDS[world], policy_of(folder, world)
    yield first
    for seed in seeds:
        at, chain = folder / world / str(seed), [*first]
        for step in (*critics(at, setup, policy, seed, train), *looked_at(at, setup, policy, seed, test)):
            after = tuple(one.name for one in chain[-1:])
            chain.append(replace(step, name=f"{world}/{seed}/{step.name}", needs=(), after=after))
        yield chain[len(first) :]


def cell(at: Path) -> dict[str, Any]:
    """The measures of every method, for the turns and the candidates of a seed."""
    found: dict[str, Any] = {}
    for what, measures in MEASURES.items():
        files = [str(at / what / f"{name}.jsonl") for name in ("measured", *SCORES)]
        tasks, cost, _ = joined(files[0], files[1:])
        states = [group for one in tasks for group in one]
        numbers = {one: {name: how(one, states) for name, how in measures.items()} for one in cost}
        found[what] = {"states": len(states), "turns": sum(map(len, states)), "methods": numbers}
        found[what]["clear"] = sum(turn.clear != 0 for group in states for turn in group)
    found["candidates"]["methods"]["random"] = {"lost": picked("sweet", "random", states)}
    return found


def table(cells: Sequence[Mapping[str, Any]], what: str, measure: str) -> Iterator[list[str]]:
    """A row for each method and for `DIFFERENCES`, a column for each measured world: means over seeds with Student's interval."""
    found = [
        (one["world"], {name: own.get(measure) for name, own in one[what]["methods"].items()})
        for one in cells
    ]
    names = dict.fromkeys(name for _, own in found for name in own)
    for shown in (*names, *DIFFERENCES):
        name, _, less = shown.partition(" - ")
        row = [shown]
        for world in dict.fromkeys(at for at, _ in found):
            pairs = [(own.get(name), own.get(less) if less else 0.0) for at, own in found if at == world]
            known = [one - other for one, other in pairs if one is not None and other is not None]
            mean = mean_of(known)
            value = {"value": mean.mean, "low": mean.low, "high": mean.high}
            row.append(number(value, 3 if measure == "lost" else 2) if known else "")
        if any(row[1:]):
            yield row


def plot(cells: Sequence[Mapping[str, Any]], path: str) -> None:
    """Each method's Spearman over turns: a panel for each world, means over seeds with Student's interval."""
    import matplotlib.pyplot as plt

    worlds = dict.fromkeys(one["world"] for one in cells)
    how: dict[str, Any] = {"sharey": True, "squeeze": False, "layout": "constrained"}
    figure, panels = plt.subplots(1, len(worlds), figsize=(11, 4.4), **how)
    for axes, world in zip(panels[0], worlds, strict=True):
        own = [one["turns"]["methods"] for one in cells if one["world"] == world]
        for name in (name for name in reversed(SHOWN) if name in own[0]):
            mean = mean_of([one[name]["spearman"] for one in own])
            axes.errorbar(mean.mean, name, xerr=mean.high - mean.mean, fmt="o", color="#2f56c6")
        axes.axvline(0, color="#999999", linewidth=1)
        axes.set(title=world, xlim=(-0.45, 0.8))
    figure.supxlabel("rank correlation with measured worth", fontsize="medium")
    figure.savefig(path, dpi=110)


def main() -> None:
    given = flags(
        __doc__, worlds=list(WORLDS), seeds=8, first_seed=1, train_tasks=50, test_tasks=8, jobs=2, folder="outputs/credit_methods",
        output=None, markdown=False, plot=None,
    )  # fmt: skip
    folder, seeds = Path(given.folder).resolve(), range(given.first_seed, given.first_seed + given.seeds)
    there = given.output and Path(given.output).exists()
    cells = json.loads(Path(given.output).read_text())["cells"] if there else []
    if not given.markdown:
        sys.path.insert(0, str(EXAMPLES))
        steps_find = [str(EXAMPLES), str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(steps_find)
        tasks = given.train_tasks, given.test_tasks
        chains = [list(steps_of(folder, world, seeds, *tasks)) for world in given.worlds]
        in_turn = [step for chain in zip(*chains, strict=True) for steps in chain for step in steps]
        run_steps(in_turn, folder, jobs=given.jobs, fresh=False, small=True)
        made = {key: cell(folder / key[0] / str(key[1])) for key in product(given.worlds, seeds)}
        cells = [one for one in cells if (one["world"], one["seed"]) not in made]
        cells += [{"world": world, "seed": seed, **found} for (world, seed), found in made.items()]
        save(given.output, cells=cells)
    cells.sort(key=lambda one: (list(WORLDS).index(one["world"]), one["seed"]))
    if given.plot:
        plot(cells, given.plot)
    print(heading())
    for what, measures in MEASURES.items():
        for measure in measures:
            print(f"\n{what}: {measure}\n")
            show([measure, *dict.fromkeys(one["world"] for one in cells)], table(cells, what, measure))


if __name__ == "__main__":
    main()
