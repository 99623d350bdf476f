"""Episodes as transitions, the replay buffer, and the filter of Filtered BC. No torch.

A transition is one agent turn of a world that rewards turns. What the agent saw is rendered
from the dialogue by a chat format, so that critic and policy read the same text whatever played.

Published behaviour: docs/published/archer.md#replay, #behaviour-cloning.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Json, Trajectory

MC_GAMMA = 0.95  # Discount of `mc_return` as published, whatever the algorithm's

Place = tuple[int, int]  # Of an episode in its run: iteration, and number in it

TurnAt = tuple[Place, int]  # Of a turn: its episode's place, and its number in the episode

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Transition:
    """One utterance and its outcome; to be imitated, an observation and an action are enough.

    `next_observation` is "" where the world ended without a message. `terminated` means that the world came
    to its own end; an episode that was cut off is `truncated`. `trajectory_reward` is the sum of the
    episode's rewards, `mc_return` what was still to come, discounted (by 0.95 as published). `action_ids` are
    the tokens that the policy wrote, the ending one included; None where they are not known.
    """

    observation: str
    action: str
    reward: float = 0.0
    next_observation: str = ""
    terminated: bool = False
    truncated: bool = False
    trajectory_reward: float = 0.0
    mc_return: float = 0.0
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
        return asdict(self) | {"action_ids": None if self.action_ids is None else list(self.action_ids)}


def transitions(
    trajectory: Trajectory, chat_format: ChatFormat, mc_gamma: float = MC_GAMMA
) -> list[Transition]:
    """An episode's transitions in order; none for one that failed, whose end is unknown, or cannot be graded."""
    if not is_learnable(trajectory):
        return []
    history, rewards = trajectory.dialogue_history, rewards_of(trajectory)
    turns = [(place, entry) for place, entry in enumerate(history) if isinstance(entry, AgentTurn)]
    truncated = trajectory.stop_reason is None or trajectory.stop_reason.truncated
    total, returns = float(sum(rewards)), mc_returns(rewards, mc_gamma)
    made = []
    for number, (place, turn) in enumerate(turns):
        last = number == len(turns) - 1
        end = len(history) if last else turns[number + 1][0]
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


def is_learnable(trajectory: Trajectory) -> bool:
    """Whether what an episode was worth can be known: it did not fail, and its task allows a grade."""
    return trajectory.error is None and not trajectory.cannot_be_graded


def without_rewards(trajectory: Trajectory) -> Trajectory:
    """An episode whose turns are not rewarded, for a grader to say what it is worth."""
    history = tuple(
        replace(entry, reward=None) if isinstance(entry, AgentTurn) else entry
        for entry in trajectory.dialogue_history
    )
    return replace(trajectory, dialogue_history=history)


def rewards_of(trajectory: Trajectory) -> list[float]:
    """The rewards of an episode's turns; none for one that nothing can be learned from.

    A grade of the whole episode, in a world that rewards no turns, is the last one's.
    """
    if not is_learnable(trajectory):
        return []
    turns = [entry for entry in trajectory.dialogue_history if isinstance(entry, AgentTurn)]
    rewards = [turn.reward for turn in turns if turn.reward is not None and math.isfinite(turn.reward)]
    if len(rewards) == len(turns):
        return rewards
    whole = trajectory.reward
    if whole is not None and all(turn.reward is None for turn in turns):
        if math.isfinite(whole):
            return [*(0.0 for _ in turns[1:]), whole]
        raise DataError(
            "must be a finite number",
            field=f"reward of task {trajectory.task.task_id!r}",
            value=whole,
            repair="It is the grade of the whole episode: let the grader return another number, or None.",
        )
    odd = [turn.reward is None or not math.isfinite(turn.reward) for turn in turns]
    number, wrong = odd.index(True), turns[odd.index(True)].reward
    raise DataError(
        "is missing" if wrong is None else "must be a finite number",
        field=f"dialogue_history[...].reward of turn {number} of task {trajectory.task.task_id!r}",
        value=wrong,
        repair="Learning online needs a reward for every turn: let the world's Env.step return one (0.0 for "
        "a turn that is worth nothing), or play another world.",
    )


def mc_returns(rewards: Sequence[float], gamma: float = MC_GAMMA) -> list[float]:
    """The return from each step on, discounted: sum over k of gamma^k r_(t+k)."""
    found = accumulate(reversed(rewards), lambda coming, reward: reward + gamma * coming, initial=0.0)
    return [*found][:0:-1]


class Ring(ABC, Generic[Item]):
    """The newest `capacity` items, drawn with replacement.

    `sample` draws every slot alike. `sample_published` draws over insertions rather than slots, so that once
    the ring has wrapped some slots come up more often than others.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self.inserted = 0  # items so far, those that have made room included

    def __len__(self) -> int:
        return min(self.inserted, self.capacity)

    @abstractmethod
    def at(self, slot: int) -> Item:
        """The item of the slot: the last one that was inserted there."""

    @abstractmethod
    def begins(self, slot: int) -> bool:
        """Whether the item of the slot begins an episode; not asked of the oldest."""

    def sample(self, n: int, rng: np.random.Generator) -> list[Item]:
        """`n` items, independently and with replacement."""
        self._check()
        return [self.at(int(slot)) for slot in rng.integers(0, len(self), size=n)]

    def sample_published(self, n: int, rng: np.random.RandomState) -> list[Item]:
        """`n` items as published: n calls of one draw each, over insertions."""
        self._check()
        draws = [int(rng.randint(0, self.inserted, size=1)[0]) for _ in range(n)]
        return [self.at(draw % self.capacity) for draw in draws]

    def drawing_games(self, rng: np.random.Generator) -> Callable[[int], list[Item]]:
        """Draws so many items as episodes, turns in order: the first from any turn on, the last may be cut.

        Every turn comes up as often as by `sample`, however few are drawn: it is a window, at any place, of
        episodes in a row, each as likely. A model that can share prefixes reads an episode once.
        """
        self._check()
        oldest = self.inserted % self.capacity if len(self) == self.capacity else 0
        order = [(oldest + age) % self.capacity for age in range(len(self))]
        begins = [age for age, slot in enumerate(order) if not age or self.begins(slot)]
        ends = [*begins[1:], len(order)]
        games = [order[begin:end] for begin, end in zip(begins, ends, strict=True)]

        def draw(n: int) -> list[Item]:
            first = int(rng.integers(len(order)))
            slots = order[first : ends[bisect_right(ends, first)]]
            while len(slots) < n:
                slots += games[int(rng.integers(len(games)))]
            return [self.at(slot) for slot in slots[:n]]

        return draw

    def _check(self) -> None:
        if not self.inserted:
            raise ValueError("an empty replay buffer cannot be sampled")


class ReplayBuffer(Ring[Transition]):
    """Turns in memory, as many as the ring has slots."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._slots: list[Transition] = []

    def at(self, slot: int) -> Transition:
        return self._slots[slot]

    def begins(self, slot: int) -> bool:
        return self._slots[slot - 1].done

    def extend(self, many: Iterable[Transition]) -> None:
        for transition in many:
            if len(self._slots) < self.capacity:
                self._slots.append(transition)
            else:
                self._slots[self.inserted % self.capacity] = transition
            self.inserted += 1


class TurnsOnDisk(Ring[TurnAt]):
    """The ring that turns of these episodes, inserted in order, would make; it knows only where they are."""

    def __init__(self, places: Sequence[Place], lengths: Sequence[int], capacity: int) -> None:
        super().__init__(capacity)
        self._places = places
        self._ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
        self.inserted = int(self._ends[-1]) if len(lengths) else 0

    def at(self, slot: int) -> TurnAt:
        """Where the turn is: its episode's place in the run, and its number in the episode."""
        newest = slot + (self.inserted - 1 - slot) // self.capacity * self.capacity
        episode = int(np.searchsorted(self._ends, newest, side="right"))
        begin = int(self._ends[episode - 1]) if episode else 0
        return self._places[episode], newest - begin

    def begins(self, slot: int) -> bool:
        return self.at(slot)[1] == 0


def best_numbers(returns: Sequence[float], quantile: float = 0.9) -> list[int]:
    """Numbers of the returns that reach the quantile (linear interpolation) of all of them; ties are kept."""
    if not returns:
        return []
    found = np.asarray(returns, dtype=np.float64)
    return [*np.flatnonzero(found >= np.quantile(found, quantile)).tolist()]


class Successes(deque[Item]):
    """Reflect-RL's memory: the newest successful episodes, as many as `maxlen`."""

    def sample(self, n: int, rng: random.Random) -> list[Item]:
        """So many, drawn with replacement; none where nothing is remembered."""
        return rng.choices(self, k=n) if self else []
