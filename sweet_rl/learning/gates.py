"""What is looked at before an hour is spent: is there anything to learn, does the critic read, are pairs right, does the policy collapse?

A gate is a line with its number. One that fails ends the run with the reason and what to try next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from statistics import fmean
from typing import Any, Final, NamedTuple

from sweet_rl.contracts import Env, Policy
from sweet_rl.errors import UsageError
from sweet_rl.interface import agrade
from sweet_rl.learning.continuations import check_replay, continuations
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.pairs import Judge, StepPair, right_pairs
from sweet_rl.preferences.ranking import SWAPPED
from sweet_rl.rollout import Episode
from sweet_rl.statistics import Difference, Estimate, difference, mean_of, mean_over_tasks
from sweet_rl.types import (
    AgentTurn,
    Completion,
    FinishReason,
    Generation,
    Observation,
    Trajectory,
    derive_seed,
)
from sweet_rl.worlds import World

Returns = Mapping[str, Sequence[float]]
"""The returns of each task's episodes, failed ones left out."""

SPREAD: Final = 0.1  # share of the tasks whose repeats differ, at least
OFTEN: Final = 0.25  # a policy to begin with may repeat so many turns, whatever the demonstrations do
READS: Final = 0.1  # a critic that reads ranks this share of the candidates of a turn otherwise, by another task's solution
# more than the start: turns said before, turns cut off or empty, one-turn episodes
REPEATED, FLAWED, AT_ONCE = 0.1, 0.05, 0.2
_PAIRS, _PLAYED_ON = 150, 6  # pairs that are played on, and how often on each side
_SAME: Final = 0.05  # mean returns that differ by no more


@dataclass(frozen=True, slots=True)
class Gate:
    """What was looked at: whether it is as it has to be, its numbers in words, and what to try where it is not."""

    name: str
    passed: bool
    found: str
    otherwise: str = ""

    def __str__(self) -> str:
        return f"{'ok  ' if self.passed else 'STOP'} {self.name}: {self.found}"


def required(gates: Iterable[Gate]) -> None:
    """Print each gate as it becomes known; a UsageError at the first that fails."""
    for gate in gates:
        print(gate, flush=True)
        if not gate.passed:
            raise UsageError(f"Stopped. This check failed: {gate.name}. {gate.otherwise}")


def returns_of(episodes: Iterable[Trajectory], world: World, whose: str) -> Returns:
    """The returns by task.

    Raises:
        UsageError: the world gives none, or one that is no finite number; all episodes failed.
    """
    found = defaultdict[str, list[float]](list)
    for one in episodes:
        if one.failed or one.cannot_be_graded:
            continue
        if one.reward is None or not math.isfinite(one.reward):
            raise UsageError(
                f"The episode {one.task.task_id!r} of {whose} has the reward {one.reward}. Nothing can be learned from that: "
                f"`step` of the Env of {world.name} must return a finite reward with the turns it rewards (0.0 is one), at least "
                "with the last, or `scores` of the World must name the stage that grades."
            )
        found[one.task.task_id].append(one.reward)
    if not found:
        raise UsageError(f"No episode of {whose} in {world.name} was completed: see `error` in its file.")
    return found


def compared(ours: Returns, theirs: Returns, **bounds: Any) -> Difference:
    """The paired difference over the tasks that both played."""
    both = sorted(ours.keys() & theirs.keys())
    return difference([ours[task] for task in both], [theirs[task] for task in both], **bounds)


def shown(returns: Returns, **bounds: float) -> str:
    """A mean over tasks with its interval."""
    return with_interval(mean_over_tasks(list(returns.values()), **bounds), sign="-")


def with_interval(found: Difference | Estimate, sign: str = "+") -> str:
    """A mean, and its interval where there is one; `+` shows the sign of what is positive, too."""
    text = f"{found.mean:{sign}.3f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"


class Habits(NamedTuple):
    """How a policy plays."""

    turns: float  # of an episode, on average
    at_once: float  # share of episodes that end in their first turn
    repeated: float  # share of turns that were said before in the same episode
    flawed: float  # share of turns that are empty, cut off, refused or calls of tools
    words: float  # of a turn, on average
    surprise: float | None  # nats a token, of its own turns: an estimate of its entropy

    def __str__(self) -> str:
        text = f"{self.turns:.1f} turns, {self.at_once:.0%} of episodes end at once, {self.repeated:.0%} of turns are repeated, "
        text += f"{self.flawed:.0%} cut off or empty, {self.words:.0f} words a turn"
        return text if self.surprise is None else f"{text}, {self.surprise:.2f} nats a token"


def habits_of(episodes: Iterable[Trajectory]) -> Habits:
    """How these episodes were played."""
    played = [
        [turn for turn in one.dialogue_history if isinstance(turn, AgentTurn)]
        for one in episodes
        if not one.failed
    ]
    turns = [turn for episode in played for turn in episode]
    if not turns:
        return Habits(0, 0, 0, 1, 0, None)
    again = sum(len(episode) - len({turn.content for turn in episode}) for episode in played)
    whole = {None, FinishReason.STOP, FinishReason.OTHER}
    flawed = sum(not turn.content.strip() or turn.finish_reason not in whole for turn in turns)
    logprobs = [value for turn in turns for value in turn.logprobs or ()]
    return Habits(
        turns=len(turns) / len(played),
        at_once=sum(len(episode) == 1 for episode in played) / len(played),
        repeated=again / len(turns),
        flawed=flawed / len(turns),
        words=fmean(len(turn.content.split()) for turn in turns),
        surprise=-fmean(logprobs) if logprobs else None,
    )


def anyhow(episodes: Iterable[Trajectory]) -> Policy:
    """A floor for any world: turns that somebody has said, by chance, whatever was asked."""
    said = sorted(
        {turn.content for one in episodes for turn in one.dialogue_history if turn.role == "assistant"}
    )

    def say(seen: Observation) -> str:
        return Random(derive_seed(seen.seed, seen.turn, "anyhow")).choice(said)

    return TeacherPolicy(say)


# ---- the gates


def plays(
    start: Sequence[Trajectory], imitated: Habits, floor: Returns, world: World, longest: str = ""
) -> Iterable[Gate]:
    """Whether a policy can be begun with: it takes turns, repeats itself hardly more than the demonstrations do, beats chance."""
    habits = habits_of(start)
    demonstrate = "Give more demonstrations (--episodes), train for longer (--steps) or begin with a larger model (--pretrain)."
    longer = f"{demonstrate} If whole turns are longer than --max_tokens, raise it."
    yield Gate("the policy takes turns", habits.flawed <= FLAWED, f"{habits}{longest}", longer)
    again = f"{habits.repeated:.0%} of its turns, of the demonstrations' {imitated.repeated:.0%}"
    repeats_itself = habits.repeated > max(OFTEN, imitated.repeated + REPEATED)
    yield Gate("it does not repeat itself", not repeats_itself, again, demonstrate)
    returns = returns_of(start, world, "the policy")
    found, seen = compared(returns, floor), set(chain.from_iterable((*returns.values(), *floor.values())))
    text = f"return {shown(returns)}, of turns by chance {shown(floor)}, difference {with_interval(found)}"
    same = f"Every episode has the return {min(seen):g}: the rewards of {world.name} must depend on what is said. If they do, imitate agents that win (--agents). {demonstrate}"
    yield Gate("it is better than chance", found.sign > 0, text, same if len(seen) == 1 else demonstrate)


def can_learn(start: Returns, habits: Habits, floor: Returns, ceiling: Returns | None) -> Iterable[Gate]:
    """Whether there is anything to learn: tasks in which one episode is better than another."""
    differ = [max(one) - min(one) > 1e-9 for one in start.values() if len(one) > 1]
    spread = sum(differ) / len(differ) if differ else 0.0
    most = "" if ceiling is None else f", best scripted agent {shown(ceiling)}"
    text = f"return {shown(start)}, by chance {shown(floor)}{most}; "
    text += f"in {spread:.0%} of the tasks episodes differ"
    same = "" if spread else "Every episode of a task has the same return, so none is better than another. "
    if habits.flawed > FLAWED:
        text += f"; {habits.flawed:.0%} of the policy's turns are cut off or empty"
        same += "Turns that are cut off need a larger --max_tokens. "
    repair = (
        "Begin with a policy that is less sure (fewer --steps of make_policy, demonstrations of agents that differ), or let the world "
        "give a share of the reward for a part of the goal."
    )
    yield Gate("there is something to learn", spread >= SPREAD, text, same + repair)


def critic_reads(rows: Sequence[Candidates], *, needless: bool = False) -> Gate:
    """Whether scores depend on the solution: how much of the order of a turn's candidates another task's solution changes.

    It is `needless` where pairs are right all the same: what is good can then be told from the dialogue.
    """
    changed, pairs = 0, 0
    for row in rows:
        own, other = row.scores or (), row.row.get(SWAPPED) or ()
        known = [(a, b) for a, b in zip(own, other, strict=False) if a is not None and b is not None]
        for place, (a, b) in enumerate(known):
            for c, d in known[:place]:
                if a != c:
                    pairs, changed = pairs + 1, changed + ((a - c) * (b - d) <= 0)
    share = changed / pairs if pairs else 0.0
    text = f"with another task's solution {share:.0%} of the pairs of candidates change sides"
    if share < READS and needless:
        text = f"hardly, {text}; but its pairs are right, so it can do without"
    repair = (
        "It does not use the solution: tasks need a `ground_truth` that says what the hidden information decides, and the start "
        "has to have read such texts (make_policy lets it). More dialogues help, too (--minutes)."
    )
    return Gate("the critic reads the solution", needless or share >= READS, text, repair)


async def pairs_are_right(
    rows: Sequence[Candidates],
    drawn: Sequence[Sequence[StepPair]],
    *,
    judge: Judge,
    states: Callable[[Candidates], tuple[Trajectory, Episode]],
    policy: Policy,
    make_env: Callable[[], Env],
    seed: int,
) -> Gate:
    """Whether the preferred turn of a pair is the better one: by the world's oracle, else by playing on from both.

    Args:
        states: the recorded episode and its state at a turn that was ranked.
        policy: plays on.
    """
    repair = "More or better dialogues for the critic (--minutes, a better start), or another method: dpo and rft need no critic."
    counts = right_pairs(rows, drawn, judge)
    if counts is not None:
        signs, how = [1] * counts.right + [-1] * counts.wrong + [0] * counts.alike, "by the world's oracle"
    else:
        some = [(row, pair) for row, pairs in zip(rows, drawn, strict=True) for pair in pairs]
        some = Random(seed).sample(some, min(_PAIRS, len(some)))
        recorded, both = [], []
        for row, pair in some:
            episode, state = states(row)
            recorded.append((episode, len(state.said)))
            for place in pair:
                completion = Completion(row.candidates[place].text, finish_reason=FinishReason.STOP)
                both.append(replace(state, said=(*state.said, Generation(row.prompt, completion))))
        played = await continuations(both, policy, _PLAYED_ON, make_env=make_env, seed=seed)
        graded = [await agrade(side) for side in played]
        signs, how = [], f"played on {_PLAYED_ON} times"
        for (episode, turns), chosen, rejected in zip(recorded, graded[::2], graded[1::2], strict=True):
            check_replay(episode, (*chosen, *rejected), turns)
            means = [[one.reward for one in side if one.reward is not None] for side in (chosen, rejected)]
            if all(means):
                found = fmean(means[0]) - fmean(means[1])
                signs.append((found > _SAME) - (found < -_SAME))
    right, wrong = (signs.count(sign) / max(1, len(signs)) for sign in (1, -1))
    text = f"{right:.0%} right, {wrong:.0%} wrong, the rest alike, of {len(signs)} pairs {how}"
    low = mean_of(signs, low=-1, high=1).low
    return Gate("pairs of turns are right", low is not None and low > 0, text, repair)


def collapsed(habits: Habits, start: Habits) -> str:
    """In what a trained policy has collapsed, in words; empty if it has not."""
    signs = (
        (habits.at_once, start.at_once, AT_ONCE, "of its episodes end at once"),
        (habits.repeated, start.repeated, REPEATED, "of its turns are repeated"),
        (habits.flawed, start.flawed, FLAWED, "of its turns are empty or cut off"),
    )
    found = [f"{now:.0%} {what} (start {then:.0%})" for now, then, more, what in signs if now > then + more]
    return "; ".join(found)


def improved(name: str, best: Returns, start: Returns, tried: Mapping[str, str]) -> Gate:
    """Whether any setting made the policy better on the development tasks without collapsing."""
    found = compared(best, start)
    text = f"{name}: return {shown(best)} on development tasks, start {shown(start)}, difference {with_interval(found)}"
    repair = "Tried: " + "; ".join(f"{setting}: {came}" for setting, came in tried.items()) + ". "
    repair += "Give it more time (--minutes), other dialogues (--seed), or another method."
    return Gate("the policy is better", found.mean > 0, text, repair)
