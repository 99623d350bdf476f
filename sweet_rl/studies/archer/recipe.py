"""The steps of `demo_archer`: games of a teacher, policies that imitate them, online algorithms.

Every seed has games of the teacher, a policy that imitates them and test games of its own; all methods of a
seed begin with that policy and are measured on those games. Steps are run by `sweet_rl.pipelines`: two at a
time, each once, and an interrupted study resumes where it stopped. What all runs have in common is in
configs/archer/demo_20q.yaml, what each method has of its own in `settings`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.archer.settings import (
    BOUNDS,
    CONFIG,
    EXACT,
    IMITATION,
    LAYERS,
    METHODS,
    SKILL,
    TASKS,
    TEACHER,
    TEACHER_GAMES,
    TEST_GAMES,
    WIDTH,
    Overrides,
    has_critic,
)
from sweet_rl.studies.chains import Chain, call
from sweet_rl.types import Trajectory
from sweet_rl.worlds import world_of

START = "start"
"""What stands for the policy before online learning, where methods are named."""

_TEST_SEED = 1_000
"""Added to a seed: its test games, the same for all of its policies; they are not learnt from."""


@dataclass(frozen=True, slots=True)
class OnlineStudy:
    """What a study is made of; None of `iterations` leaves them to the configuration.

    `methods` are the runs of each seed by their names, with what each has beside the configuration.
    """

    folder: Path
    seeds: int = 1
    first_seed: int = 0
    iterations: int | None = None
    skill: float = SKILL
    teacher_games: int = TEACHER_GAMES
    test_games: int = TEST_GAMES
    methods: Mapping[str, Overrides] = field(default_factory=lambda: METHODS)

    @property
    def numbers(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def teacher(self, seed: int) -> Path:
        """The games that are imitated."""
        return self.folder / f"{TEACHER}-{seed}.jsonl"

    def bound(self, name: str) -> Path:
        """Games of a scripted player."""
        return self.folder / f"{name}.jsonl"

    def start(self, seed: int) -> Path:
        """Folder with the policy of a seed, before it learns online."""
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
        """Overrides of a run beside its configuration; of `START`, what a policy needs to play."""
        policy = _quoted(self.start(seed) / "policy")
        own = self.methods[method] if method != START else {"agent_type": "online_filteredbc"}
        overrides = {
            **own,
            "seed": seed,
            "policy_lm": policy,
            "critic_lm": policy,
            "save_path": _quoted(self.run(method, seed)),
            "quiet": "true",
        }
        if self.iterations is not None:
            overrides["iterations"] = self.iterations
        return tuple(f"{name}={value}" for name, value in overrides.items())


def rounds(study: OnlineStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    begins: list[Chain] = [
        (_teach(study, seed), _imitate(study, seed), *_measure(study, START, seed)) for seed in study.numbers
    ]
    bounds: list[Chain] = [
        (_scripted(study.bound(name), name, {"repeats": games}),) for name, games in BOUNDS.items()
    ]
    runs = [
        (_learn(study, method, seed), *_measure(study, method, seed), *_swap(study, method, seed))
        for seed in study.numbers
        for method in study.methods
    ]
    return [[*begins, *bounds], runs]


def _teach(study: OnlineStudy, seed: int) -> Step:
    flags = {"skill": study.skill, "repeats": study.teacher_games, "seed": seed}
    return _scripted(study.teacher(seed), TEACHER, flags)


def _scripted(output: Path, player: str, flags: dict[str, Any]) -> Step:
    flags = {
        "task_type": "twenty_questions",
        "agent_model": player,
        **flags,
        "overwrite": True,
        "quiet": True,
    }
    return call("simulate_interactions", output, (TASKS, str(output)), flags)


def _imitate(study: OnlineStudy, seed: int) -> Step:
    output = study.start(seed)
    flags = {"seed": seed, "width": WIDTH, "layers": LAYERS, **IMITATION}
    words = (str(study.teacher(seed)), str(output))
    return call("sweet_rl.studies.archer.recipe:imitate", output, words, flags)


def _learn(study: OnlineStudy, method: str, seed: int) -> Step:
    output, overrides = study.run(method, seed), study.overrides(method, seed)
    if method == EXACT:
        return call("sweet_rl.studies.archer.exact:learn_exactly", output, overrides)
    return call("run_archer", output, overrides, {"config_name": CONFIG})


def _measure(study: OnlineStudy, method: str, seed: int) -> list[Step]:
    """Sampled games, and a greedy one for each word: there is only one of those."""
    overrides = study.overrides(method, seed)
    calls = []
    for greedy in (False, True):
        output = study.games(method, seed, greedy=greedy)
        flags: dict[str, Any] = {"games": 1 if greedy else study.test_games, "seed": _TEST_SEED + seed}
        flags |= {"greedy": True} if greedy else {}
        flags |= {"trained": True} if method != START else {}
        calls.append(call("sweet_rl.studies.archer.recipe:measure", output, (str(output), *overrides), flags))
    return calls


def _swap(study: OnlineStudy, method: str, seed: int) -> list[Step]:
    if not has_critic(method, study.methods[method]):
        return []
    output = study.swap(method, seed)
    words = (str(study.games(method, seed, greedy=False)), str(output), *study.overrides(method, seed))
    return [call("sweet_rl.studies.archer.swaps:swap", output, words)]


# ---- the steps that are no commands, each in a worker


@recorded("demo_archer imitate", reads=("games_path",))
def imitate(games_path: str, output: str, *, seed: int, width: int, layers: int, **training: Any) -> None:
    """Make the policy of a seed; it learns to play as in the games."""
    from sweet_rl.commands.archer import settings_of
    from sweet_rl.commands.archer_config import load_config
    from sweet_rl.commands.cloning import clone
    from sweet_rl.online.archer import demonstrations_of
    from sweet_rl.online.replay import transitions
    from sweet_rl.online.tiny_models import make_models
    from sweet_rl.records import load_trajectories

    tracking.writes(output, folder=True)
    transcript = world_of("twenty_questions").transcript()
    played = [steps for game in load_trajectories(games_path) if (steps := transitions(game, transcript))]
    texts = [steps[-1].next_observation for steps in played]
    policy, _ = make_models(Path(output), seed=seed, texts=texts, hidden_size=width, layers=layers)
    overrides = [f"policy_lm={_quoted(policy)}", f"critic_lm={_quoted(policy)}", f"seed={seed}"]
    settings = settings_of(load_config(CONFIG, [*overrides, "agent_type=online_filteredbc"]))
    shown = demonstrations_of(step for steps in played for step in steps)
    losses = clone(settings, shown, policy, **training)
    print(f"{len(shown)} turns of {len(played)} games; loss {losses[0]:.3f}, in the end {losses[-1]:.3f}")


@recorded("demo_archer measure")
def measure(
    output: str, *overrides: str, games: int, seed: int, greedy: bool = False, trained: bool = False
) -> None:
    """Let a policy play the words; nothing is learned from it.

    Args:
        trained: as its run left it; else as it began.
    """
    from sweet_rl.records import replace_rows, trajectory_to_row

    learner = learner_of(overrides, trained=trained)
    played = asyncio.run(_played(learner.rollout_policy(greedy=greedy), games, seed))
    tracking.writes(output)
    replace_rows(output, map(trajectory_to_row, played))


def learner_of(overrides: Sequence[str], *, trained: bool) -> Any:
    """The learner of a run, as the run left it or before it has learned."""
    from sweet_rl.commands.archer import settings_of
    from sweet_rl.commands.archer_config import load_config
    from sweet_rl.online.archer import make_learner
    from sweet_rl.training.checkpoints import complete_checkpoints, load_state

    config = load_config(CONFIG, overrides)
    learner = make_learner(settings_of(config), chat_format=world_of("twenty_questions").transcript())
    if trained:
        learner.load_state_dict(load_state(complete_checkpoints(Path(str(config["save_path"])))[-1]))
    return learner


async def _played(policy: Any, games: int, seed: int) -> list[Trajectory]:
    from sweet_rl.interface import asimulate

    try:
        return await asimulate("twenty_questions", TASKS, agent=policy, repeats=games, seed=seed)
    finally:
        await policy.close()


def _quoted(path: Path) -> str:
    """A path as a value in Hydra's grammar, whatever characters it has."""
    if re.fullmatch(r"[\w./-]+", str(path), re.ASCII):
        return str(path)
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
