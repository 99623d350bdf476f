"""The steps of `demo_archer`: games of a teacher, policies that imitate them, three online algorithms.

Every seed has a policy of its own, which all methods of that seed begin with. Steps are run by
`sweet_rl.pipelines`: two at a time, each once, and an interrupted study resumes where it stopped. The runs' own
settings are in configs/archer/demo_20q.yaml.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.chains import Chain, call
from sweet_rl.types import Trajectory
from sweet_rl.worlds import world_of

CONFIG = "demo_20q"
TASKS = "twenty-questions:ten"

SKILL = 0.3
"""Of the teacher: most of its questions are any question, so that something is left to learn."""

TEACHER_GAMES, TEST_GAMES = 40, 20
"""Games for each word: to imitate, and to measure every policy on."""

WIDTH, LAYERS = 64, 2
"""Of the policy; the critic is as wide, with one layer."""

IMITATION = {
    "learning_rate": 2e-3,
    "iterations": 3,
    "batch_size": 64,
    "grad_accum_steps": 1,
    "max_grad_norm": 1.0,
}
"""How the policies are made that online learning begins with."""

METHODS = ("archer", "chai", "online_filteredbc")
"""Values of `agent_type`."""

CRITICS = ("archer", "chai")
"""Those with a critic."""

START = "start"
"""What stands for the policy before online learning, where methods are named."""

_TEST_SEED = 1_000
"""The same games for every policy of the study; they are not learnt from."""


@dataclass(frozen=True, slots=True)
class OnlineStudy:
    """What a study is made of; None of `iterations` leaves them to the configuration."""

    folder: Path
    seeds: int = 3
    iterations: int | None = None
    skill: float = SKILL
    teacher_games: int = TEACHER_GAMES
    test_games: int = TEST_GAMES

    @property
    def teacher(self) -> Path:
        """The games that are imitated."""
        return self.folder / "teacher.jsonl"

    def start(self, seed: int) -> Path:
        """Folder with the policy and the fresh critic of a seed."""
        return self.folder / f"{START}-{seed}"

    def run(self, method: str, seed: int) -> Path:
        """The folder that the run of a method with a seed writes to."""
        return self.folder / f"{method}-{seed}"

    def games(self, method: str, seed: int, *, greedy: bool) -> Path:
        """Games that a policy was measured on."""
        return self.folder / f"{method}-{seed}.{'greedy' if greedy else 'sampled'}.jsonl"

    def swap(self, method: str, seed: int) -> Path:
        """How far the critic's advantages move with the dialogue of another game."""
        return self.folder / f"{method}-{seed}.swap.json"

    def overrides(self, method: str, seed: int) -> tuple[str, ...]:
        """Overrides of a run beside its configuration."""
        start = self.start(seed)
        overrides = [
            f"agent_type={method}",
            f"seed={seed}",
            f"policy_lm={_quoted(start / 'policy')}",
            f"critic_lm={_quoted(start / 'critic')}",
            f"save_path={_quoted(self.run(method, seed))}",
            "quiet=true",
        ]
        return (*overrides, *([] if self.iterations is None else [f"iterations={self.iterations}"]))


def rounds(study: OnlineStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    seeds = range(study.seeds)
    starts = [(_imitate(study, seed), *_measure(study, START, seed)) for seed in seeds]
    runs = [
        (_learn(study, method, seed), *_measure(study, method, seed), *_swap(study, method, seed))
        for seed in seeds
        for method in METHODS
    ]
    return [[(_teach(study),)], starts, runs]


def _teach(study: OnlineStudy) -> Step:
    flags = {
        "task_type": "twenty_questions",
        "agent_model": "asker",
        "skill": study.skill,
        "best_of_n": study.teacher_games,
        "overwrite": True,
        "quiet": True,
    }
    return call("simulate_interactions", study.teacher, (TASKS, str(study.teacher)), flags)


def _imitate(study: OnlineStudy, seed: int) -> Step:
    output = study.start(seed)
    flags = {"seed": seed, "width": WIDTH, "layers": LAYERS, **IMITATION}
    return call("sweet_rl.studies.archer.recipe:imitate", output, (str(study.teacher), str(output)), flags)


def _learn(study: OnlineStudy, method: str, seed: int) -> Step:
    flags = {"config_name": CONFIG}
    return call("run_archer", study.run(method, seed), study.overrides(method, seed), flags)


def _measure(study: OnlineStudy, method: str, seed: int) -> list[Step]:
    """Sampled games, and a greedy one for each word: there is only one of those."""
    overrides = study.overrides("online_filteredbc" if method == START else method, seed)
    calls = []
    for greedy in (False, True):
        output = study.games(method, seed, greedy=greedy)
        flags: dict[str, Any] = {"games": 1 if greedy else study.test_games}
        flags |= {"greedy": True} if greedy else {}
        flags |= {"trained": True} if method != START else {}
        calls.append(call("sweet_rl.studies.archer.recipe:measure", output, (str(output), *overrides), flags))
    return calls


def _swap(study: OnlineStudy, method: str, seed: int) -> list[Step]:
    if method not in CRITICS:
        return []
    output = study.swap(method, seed)
    words = (str(study.games(method, seed, greedy=False)), str(output), *study.overrides(method, seed))
    return [call("sweet_rl.studies.archer.swaps:swap", output, words)]


# ---- the steps that are no commands, each in a worker


@recorded("demo_archer imitate", reads=("games_path",))
def imitate(games_path: str, output: str, *, seed: int, width: int, layers: int, **training: Any) -> None:
    """Make the two models of a seed; the policy learns to play as in the games."""
    from sweet_rl.algorithms.archer.bc import demonstrations_of
    from sweet_rl.algorithms.archer.replay import transitions
    from sweet_rl.commands.archer import settings_of
    from sweet_rl.commands.archer_config import load_config
    from sweet_rl.commands.cloning import clone
    from sweet_rl.records import load_trajectories
    from sweet_rl.tiny_models.question_models import make_models

    tracking.writes(output, folder=True)
    transcript = world_of("twenty_questions").transcript()
    played = [steps for game in load_trajectories(games_path) if (steps := transitions(game, transcript))]
    texts = [steps[-1].next_observation for steps in played]
    policy, critic = make_models(Path(output), seed=seed, texts=texts, hidden_size=width, layers=layers)
    overrides = [f"policy_lm={_quoted(policy)}", f"critic_lm={_quoted(critic)}", f"seed={seed}"]
    settings = settings_of(load_config(CONFIG, [*overrides, "agent_type=online_filteredbc"]))
    shown = demonstrations_of(step for steps in played for step in steps)
    losses = clone(settings, shown, policy, **training)
    print(f"{len(shown)} turns of {len(played)} games; loss {losses[0]:.3f}, in the end {losses[-1]:.3f}")


@recorded("demo_archer measure")
def measure(output: str, *overrides: str, games: int, greedy: bool = False, trained: bool = False) -> None:
    """Let a policy play the ten words; nothing is learned from it.

    Args:
        output: file of the games.
        overrides: of its run.
        games: of each word.
        greedy: the likeliest tokens.
        trained: as its run left it; else as it began.
    """
    from sweet_rl.records import replace_rows, trajectory_to_row

    learner = learner_of(overrides, trained=trained)
    played = asyncio.run(_played(learner.rollout_policy(greedy=greedy), games))
    tracking.writes(output)
    replace_rows(output, map(trajectory_to_row, played))


def learner_of(overrides: Sequence[str], *, trained: bool) -> Any:
    """The learner of a run, as the run left it or before it has learned."""
    from sweet_rl.algorithms.archer.learners import make_learner
    from sweet_rl.commands.archer import settings_of
    from sweet_rl.commands.archer_config import load_config
    from sweet_rl.training.checkpoints import complete_checkpoints
    from sweet_rl.training.state_files import load_state

    config = load_config(CONFIG, overrides)
    learner = make_learner(settings_of(config), chat_format=world_of("twenty_questions").transcript())
    if trained:
        learner.load_state_dict(load_state(complete_checkpoints(Path(str(config["save_path"])))[-1]))
    return learner


async def _played(policy: Any, games: int) -> list[Trajectory]:
    from sweet_rl.interface import asimulate

    try:
        return await asimulate("twenty_questions", TASKS, agent=policy, repeats=games, seed=_TEST_SEED)
    finally:
        await policy.close()


def _quoted(path: Path) -> str:
    """A path as a value in Hydra's grammar, whatever characters it has."""
    if re.fullmatch(r"[\w./-]+", str(path), re.ASCII):
        return str(path)
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
