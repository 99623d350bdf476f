"""Episodes as transitions, the replay buffer, and the filter of Filtered BC. No torch.

A transition is one agent turn of a world that rewards turns. What the agent saw is rendered
from the dialogue by a chat format, so that critic and policy read the same text whatever played.

Published behaviour: docs/published/archer.md#replay, #behaviour-cloning.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Json, Trajectory

MC_GAMMA = 0.95  # Discount of `mc_return` as published, whatever the algorithm's

Place = tuple[int, int]  # Of an episode in its run: iteration, and number in it


@dataclass(frozen=True, slots=True)
class Transition:
    """One utterance and its outcome; to be imitated, an observation and an action are enough.

    `next_observation` is "" where the world ended without a message. `terminated`: the world came to its own end; an
    episode that was cut off is `truncated`. `trajectory_reward` is the sum of the episode's rewards, `mc_return` what was
    still to come, discounted. `action_ids` are the tokens that the policy wrote, the ending one included, if they are known.
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


class TurnAt(NamedTuple):
    """Where a turn is: its episode's place in the run, its number in the episode, whether it is the last one."""

    episode: Place
    number: int
    done: bool


Item = TypeVar("Item")
Turn = TypeVar("Turn", bound="Transition | TurnAt")


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
        before, after = (chat_format.render(history[:at]) for at in (place, end))
        known = total, returns[number], turn.token_ids
        outcome = rewards[number], "" if unknown else after, last and not truncated, last and truncated
        made.append(Transition(before, turn.output, *outcome, *known))
    return made


def is_learnable(trajectory: Trajectory) -> bool:
    """Whether what an episode was worth can be known: it did not fail, and its task allows a grade."""
    return trajectory.error is None and not trajectory.cannot_be_graded


def without_rewards(trajectory: Trajectory) -> Trajectory:
    """An episode whose turns are not rewarded, for a grader to say what it is worth."""
    history = trajectory.dialogue_history
    bare = [replace(entry, reward=None) if isinstance(entry, AgentTurn) else entry for entry in history]
    return replace(trajectory, dialogue_history=tuple(bare))


def rewards_of(trajectory: Trajectory) -> list[float]:
    """The rewards of an episode's turns; none for one that nothing can be learned from.

    A grade of the whole episode, in a world that rewards no turns, is the last one's.
    """
    if not is_learnable(trajectory):
        return []
    rewards = [entry.reward for entry in trajectory.dialogue_history if isinstance(entry, AgentTurn)]
    field = "reward of turn {}"
    repair = "Env.step returns one for every turn of a world that is learned online"
    if rewards and trajectory.reward is not None and all(reward is None for reward in rewards):
        rewards = [*(0.0 for _ in rewards[1:]), trajectory.reward]
        field, repair = "reward", "A grader returns one, or None"
    known = [reward for reward in rewards if reward is not None and math.isfinite(reward)]
    if len(known) == len(rewards):
        return known
    number = next(n for n, reward in enumerate(rewards) if reward is None or not math.isfinite(reward))
    raise DataError(
        "is missing" if rewards[number] is None else "must be a finite number",
        field=f"{field.format(number)} of task {trajectory.task.task_id!r}",
        value=rewards[number],
        repair=f"{repair} (0.0 for what is worth nothing).",
    )


def mc_returns(rewards: Sequence[float], gamma: float = MC_GAMMA) -> list[float]:
    """The return from each step on, discounted: sum over k of gamma^k r_(t+k)."""
    found = accumulate(reversed(rewards), lambda coming, reward: reward + gamma * coming, initial=0.0)
    return [*found][:0:-1]


class ReplayBuffer(Generic[Turn]):
    """The newest `capacity` turns, drawn with replacement: every slot alike, or as published over insertions.

    Once the ring has wrapped, some slots come up more often than others as published.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.slots: list[Turn] = []
        self.inserted = 0  # items so far, those that have made room included

    def extend(self, many: Iterable[Turn]) -> None:
        for item in many:
            slot = self.inserted % self.capacity
            self.slots[slot : slot + 1] = [item]
            self.inserted += 1

    def sample(self, n: int, rng: np.random.Generator) -> list[Turn]:
        """`n` items, independently and with replacement."""
        return [self.slots[slot] for slot in rng.integers(0, len(self.slots), size=n)]

    def sample_published(self, n: int, rng: np.random.RandomState) -> list[Turn]:
        """`n` items as published: n calls of one draw each, over insertions."""
        draws = [int(rng.randint(0, self.inserted, size=1)[0]) for _ in range(n)]
        return [self.slots[draw % self.capacity] for draw in draws]

    def drawing_games(self, rng: np.random.Generator) -> Callable[[int], list[Turn]]:
        """Draws so many items as episodes, turns in order: the first from any turn on, the last may be cut.

        Every turn comes up as often as by `sample`, however few are drawn: it is a window, at any place, of
        episodes in a row, each as likely. A model that can share prefixes reads an episode once.
        """
        oldest = self.inserted % len(self.slots)  # 0 until the ring has wrapped
        order = [*self.slots[oldest:], *self.slots[:oldest]]
        begins = [0, *(at + 1 for at, item in enumerate(order[:-1]) if item.done)]
        ends = [*begins[1:], len(order)]
        games = [order[begin:end] for begin, end in zip(begins, ends, strict=True)]

        def draw(n: int) -> list[Turn]:
            first = int(rng.integers(len(order)))
            drawn = order[first : ends[bisect_right(ends, first)]]
            while len(drawn) < n:
                drawn += games[int(rng.integers(len(games)))]
            return drawn[:n]

        return draw


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
