"""The steps of `demo_archer` that are no commands, each in a worker. Imports torch.

Of sixteen words the best play is known exactly (`mini.objects.asker`). A critic is not told the word: if its advantages
stay as they are with the dialogue of another word's game, it does not read the game.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sweet_rl import tracking
from sweet_rl.chat import ChatFormat
from sweet_rl.cli.stage import recorded
from sweet_rl.commands.archer_config import load_config, quoted
from sweet_rl.commands.run_archer import run, settings_of
from sweet_rl.commands.run_bc import clone
from sweet_rl.errors import DataError
from sweet_rl.interface import asimulate
from sweet_rl.online.learner import ArcherLearner, Draw, Say
from sweet_rl.online.losses import advantages
from sweet_rl.online.models import make_learner
from sweet_rl.online.policy import Utterance
from sweet_rl.online.replay import Transition, transitions
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.online.tiny_models import make_models
from sweet_rl.preferences.ranking import moved
from sweet_rl.records import load_trajectories, replace_file, replace_rows, trajectory_to_row
from sweet_rl.statistics import other_places
from sweet_rl.studies.archer.recipe import CONFIG, TASKS, area, best_asker, names
from sweet_rl.training.checkpoints import complete_checkpoints, load_state
from sweet_rl.types import Trajectory
from sweet_rl.worlds import world_of
from sweet_rl.worlds.question_games import SOLVED_REWARD

_ASKED = re.compile(r"^(.+\?) (\S.*)$", re.MULTILINE)


@recorded("demo_archer imitate", reads=("games_path",))
def imitate(games_path: str, output: str, *, seed: int, width: int, layers: int, **training: Any) -> None:
    """Make the policy of a seed; it learns to play as in the games."""
    tracking.writes(output, folder=True)
    transcript = world_of("twenty_questions").transcript()
    played = [steps for game in load_trajectories(games_path) if (steps := transitions(game, transcript))]
    texts = [steps[-1].next_observation for steps in played]
    policy, _ = make_models(Path(output), seed=seed, texts=texts, hidden_size=width, layers=layers)
    overrides = [f"policy_lm={quoted(policy)}", f"critic_lm={quoted(policy)}", f"seed={seed}"]
    settings = settings_of(load_config(CONFIG, [*overrides, "agent_type=online_filteredbc"]))
    shown = [replace(step, action_ids=None) for steps in played for step in steps]
    losses = clone(settings, shown, policy, **training)
    print(f"{len(shown)} turns of {len(played)} games; loss {losses[0]:.3f}, in the end {losses[-1]:.3f}")


@recorded("demo_archer measure")
def measure(
    output: str, *overrides: str, games: int, seed: int, greedy: bool = False, trained: bool = False
) -> None:
    """Let a policy play the words, as its run left it if `trained`, else as it began; nothing is learned from it."""
    policy = learner_of(overrides, trained=trained).rollout_policy(greedy=greedy)

    async def played() -> list[Trajectory]:
        try:
            return await asimulate("twenty_questions", TASKS, agent=policy, repeats=games, seed=seed)
        finally:
            await policy.close()

    rows = map(trajectory_to_row, asyncio.run(played()))
    tracking.writes(output)
    replace_rows(output, rows)


def learner_of(overrides: Sequence[str], *, trained: bool) -> Any:
    config = load_config(CONFIG, overrides)
    learner = make_learner(settings_of(config), chat_format=world_of("twenty_questions").transcript())
    if trained:
        learner.load_state_dict(load_state(complete_checkpoints(Path(str(config["save_path"])))[-1]))
    return learner


@recorded("demo_archer learn_exactly", resumes=True)
def learn_exactly(*overrides: str) -> None:
    """Run ArCHer with what utterances gain on the best play in the place of its critic's advantages."""
    run(CONFIG, overrides, None, exact_learner)


class ExactLearner(ArcherLearner):
    """Its critic is never trained and never asked."""

    best = best_asker()

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        return []

    def _advantages(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> torch.Tensor:
        gained = [
            self.best.advantage(asked(observation), utterance.text.strip())
            for observation, utterance in zip(observations, utterances, strict=True)
        ]
        return torch.tensor(gained)


def exact_learner(
    settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None
) -> ExactLearner:
    made: Any = make_learner(settings, chat_format=chat_format)
    return ExactLearner(settings, made.policy, made.critic, chat_format, say)


def asked(observation: str) -> Iterator[tuple[str, str]]:
    return ((line[1], line[2]) for line in _ASKED.finditer(observation))


@recorded("demo_archer swap", reads=("games",))
def swap(games: str, output: str, *overrides: str) -> None:
    """Value every turn after its own dialogue and after another word's: correlation, and `auc` of names either way."""
    turns: dict[int, list[tuple[str, Transition]]] = defaultdict(list)
    transcript = world_of("twenty_questions").transcript()
    for game in load_trajectories(games):
        for number, turn in enumerate(transitions(game, transcript)):
            turns[number].append((game.task.task_id, turn))
    pairs = []  # every turn, and that of the same number of another word's game, where its dialogue is another
    for alike in turns.values():
        for (word, own), place in zip(alike, other_places([word for word, _ in alike]), strict=True):
            other_word, other = alike[place]
            if other_word != word and other.observation != own.observation:
                pairs.append((own, other))
    if not pairs:
        raise DataError("must hold different games about two words", path=games)
    critic, said = learner_of(overrides, trained=True).critic, [own.action for own, _ in pairs]
    observations = [own.observation for own, _ in pairs], [other.observation for _, other in pairs]
    values = [advantages(critic.read(each, said)).tolist() for each in observations]
    found = moved([(values[0], values[1])])
    content = {"turns": len(pairs), "correlation": found and found.correlation}
    for name, each in zip(("auc", "auc_swapped"), values, strict=True):
        content[name] = area_of_names([turn for turn, _ in pairs], each)
    tracking.writes(output)
    replace_file(output, [json.dumps(content).encode()])


def area_of_names(turns: Sequence[Transition], values: Sequence[float]) -> float | None:
    valued = zip(turns, values, strict=True)
    return area((turn.reward == SOLVED_REWARD, value) for turn, value in valued if turn.action in names())
