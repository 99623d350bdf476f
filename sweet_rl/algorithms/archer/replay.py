"""Episodes as transitions, the buffer they are drawn from, and the filter of Filtered BC. No torch.

A transition is one agent turn of a world that rewards turns (ArCHer spec §7). What the agent saw is rendered
from the dialogue by a chat format, so that critic and policy read the same text whoever played.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Json, Trajectory

MC_GAMMA = 0.95
"""Discount of `mc_return`, whatever the algorithm's (ArCHer spec §7)."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One utterance and what came of it.

    `next_observation` is "" where the world said nothing at the end. `terminated` means that the world came
    to its own end; an episode that was cut off is `truncated`. `trajectory_reward` is the sum of the
    episode's rewards, `mc_return` what was still to come, discounted by 0.95. `action_ids` are the tokens
    that the policy wrote, the ending one included; None where they are not known.
    """

    observation: str
    action: str
    reward: float
    next_observation: str
    terminated: bool
    truncated: bool
    trajectory_reward: float
    mc_return: float
    action_ids: tuple[int, ...] | None = None

    @property
    def done(self) -> bool:
        """The episode's last transition, as published: time limits included."""
        return self.terminated or self.truncated

    @property
    def bootstraps(self) -> bool:
        """Whether the value of the next observation belongs to the target.

        Not once the world has ended, and not where the last observation is not known.
        """
        return not self.terminated and not (self.truncated and not self.next_observation)

    def to_row(self) -> dict[str, Json]:
        """The transition as plain data, for JSON Lines."""
        row = asdict(self)
        row["action_ids"] = list(self.action_ids) if self.action_ids is not None else None
        return row

    @classmethod
    def from_row(cls, row: dict[str, Json]) -> Transition:
        """The transition that `to_row` wrote."""
        ids = row.get("action_ids")
        return cls(**{**row, "action_ids": tuple(ids) if ids is not None else None})


def transitions(trajectory: Trajectory, chat_format: ChatFormat) -> list[Transition]:
    """An episode's transitions in order; none for an episode that failed, whose end nobody knows.

    Args:
        trajectory: of a world that rewards every turn.
        chat_format: how dialogues become the text that policy and critic read.

    Raises:
        DataError: a turn has no reward.
    """
    if trajectory.error is not None:
        return []
    history = trajectory.dialogue_history
    places = [place for place, entry in enumerate(history) if isinstance(entry, AgentTurn)]
    turns = [entry for entry in history if isinstance(entry, AgentTurn)]
    rewards = [_reward_of(turn, trajectory, number) for number, turn in enumerate(turns)]
    ends = [*places[1:], len(history)][: len(places)]
    truncated = trajectory.stop_reason is None or trajectory.stop_reason.truncated
    total, returns = float(sum(rewards)), mc_returns(rewards)
    made = []
    for number, (turn, place, end) in enumerate(zip(turns, places, ends, strict=True)):
        last = number == len(turns) - 1
        unknown = end == place + 1  # the world had no last words
        made.append(
            Transition(
                observation=chat_format.render(history[:place]),
                action=turn.output,
                reward=rewards[number],
                next_observation="" if unknown else chat_format.render(history[:end]),
                terminated=last and not truncated,
                truncated=last and truncated,
                trajectory_reward=total,
                mc_return=returns[number],
                action_ids=turn.token_ids,
            )
        )
    return made


def _reward_of(turn: AgentTurn, trajectory: Trajectory, number: int) -> float:
    if turn.reward is None:
        raise DataError(
            "is missing",
            field=f"dialogue_history[...].reward of turn {number} of task {trajectory.task.task_id!r}",
            repair="Transitions come from worlds that reward every turn, such as twenty_questions.",
        )
    return float(turn.reward)


def mc_returns(rewards: Sequence[float], gamma: float = MC_GAMMA) -> list[float]:
    """What is still to come from each step on, discounted: sum over k of gamma^k r_(t+k)."""
    returns: list[float] = []
    coming = 0.0
    for reward in reversed(rewards):
        coming = reward + gamma * coming
        returns.append(coming)
    return returns[::-1]


class ReplayBuffer:
    """The newest `capacity` transitions, drawn with replacement, every one alike.

    Published behaviour (ArCHer spec §7) differs once it is full: the number of insertions, not of slots, was
    drawn from, so that some slots came up more often than others.

    Args:
        capacity: slots; the oldest transition makes room for a new one.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self.inserted = 0
        """Transitions inserted so far, those that have made room included."""
        self._slots: list[Transition] = []

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> tuple[Transition, ...]:
        """The transitions in the order of their slots."""
        return tuple(self._slots)

    def insert(self, transition: Transition) -> None:
        """Put one in, in the place of the oldest when the buffer is full."""
        if len(self._slots) < self.capacity:
            self._slots.append(transition)
        else:
            self._slots[self.inserted % self.capacity] = transition
        self.inserted += 1

    def extend(self, many: Iterable[Transition]) -> None:
        """Insert in order."""
        for transition in many:
            self.insert(transition)

    def sample(self, n: int, rng: np.random.Generator) -> list[Transition]:
        """`n` transitions, independently and with replacement.

        Raises:
            ValueError: the buffer is empty.
        """
        if not self._slots:
            raise ValueError("an empty replay buffer cannot be sampled")
        return [self._slots[slot] for slot in rng.integers(0, len(self._slots), size=n)]

    def sample_published(self, n: int, rng: np.random.RandomState) -> list[Transition]:
        """`n` transitions as published: n calls of one draw each, over insertions rather than slots."""
        draws = [int(rng.randint(0, self.inserted, size=1)[0]) for _ in range(n)]
        return [self._slots[draw % self.capacity] for draw in draws]


def filter_best(
    episodes: Sequence[Sequence[Transition]], quantile: float = 0.9
) -> list[Sequence[Transition]]:
    """The episodes whose return reaches the quantile (linear interpolation) of all returns; ties are kept.

    Args:
        episodes: of all iterations so far, none empty (ArCHer spec §5).
        quantile: 0.9 keeps the best tenth; all episodes where all returns are equal.
    """
    if not episodes:
        return []
    returns = np.asarray([episode[0].trajectory_reward for episode in episodes], dtype=np.float64)
    cutoff = float(np.quantile(returns, quantile))
    return [episode for episode, reward in zip(episodes, returns, strict=True) if reward >= cutoff]
