"""What turns were worth: episodes are played on from before and after them, as often as the answer needs.

A state's value is the mean return of the episodes that a policy plays on from it; a turn's worth (its advantage) is
the value of the state after it minus that of the state before it. The end of an episode needs no playing.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.interface.grades import grading_as_they_end, grading_of
from sweet_rl.learning.continuations import Remembering, check_replay, continuations, states_of
from sweet_rl.players.cast import Cast
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.credit import own_turns, turn_digest
from sweet_rl.preferences.pairs import key_fields
from sweet_rl.rollout import Episode, RolloutStats
from sweet_rl.statistics import Estimate, mean_of, student
from sweet_rl.types import Completion, Failure, FinishReason, Generation, Json, Message, Trajectory
from sweet_rl.worlds import World

FIRST: Final = 8  # continuations of every state in the first round
GROWTH: Final = 3  # a round brings a state's number to so many times what it was, at most
_PILOTS: Final = 8  # dialogues by whose first round the cost of all is estimated

Bounds = tuple[float | None, float | None]
"""The lowest and the highest return, as far as there are such."""


@dataclass(eq=False, slots=True)
class State:
    """A state of an episode, and the returns of what was played on from it."""

    episode: Episode
    given: int  # turns of the recorded episode that it begins with
    values: list[float] = field(default_factory=list)
    played: int = 0  # continuations, with those that failed
    over: bool = False  # the episode has ended: its return is known
    alike: bool = True  # all that was played on went the same way

    def estimate(self, bounds: Bounds) -> Estimate:
        """Its value with a 95 % interval: Student's t; where all returns are equal, as wide as others may be missing."""
        return mean_of(self.values[:1] if self.over else self.values, low=bounds[0], high=bounds[1])

    def as_row(self, bounds: Bounds) -> dict[str, Json]:
        """The value as rows have it."""
        found = self.estimate(bounds)
        ends = (found.mean, found.mean) if self.over else (found.low, found.high)
        low, high = (found.mean if end is None else end for end in ends)
        return {"mean": found.mean, "low": low, "high": high, "n": 0 if self.over else len(self.values)}


class Worth(NamedTuple):
    """An advantage with its 95 % interval."""

    mean: float
    low: float
    high: float


def worth(after: State, before: State, bounds: Bounds) -> Worth:
    """The value after a turn minus that before it: Welch's interval, since the two are drawn independently.

    A state whose returns are all equal does not tell their spread. What its own interval allows for is added in
    quadrature (Zou and Donner 2008, Statistics in Medicine 27).
    """
    one, other = after.estimate(bounds), before.estimate(bounds)
    found = [(one, after), (other, before)]
    parts = [((each.error or 0.0) ** 2, len(state.values)) for each, state in found if not state.over]
    total, half = sum(part for part, _ in parts), 0.0
    if total > 0:
        freedom = total**2 / sum(part**2 / (number - 1) for part, number in parts)
        half = student(int(freedom + 1e-9)) * math.sqrt(total)
    slack = [
        (0.0, 0.0)
        if state.over or each.error or each.low is None or each.high is None
        else (each.mean - each.low, each.high - each.mean)
        for each, state in found
    ]
    mean = one.mean - other.mean
    return Worth(
        mean,
        mean - math.hypot(half, slack[0][0], slack[1][1]),
        mean + math.hypot(half, slack[0][1], slack[1][0]),
    )


@dataclass(frozen=True, slots=True)
class Unit:
    """What is measured together: the states of one dialogue, or a state and those after its candidates.

    `pairs` are the places of the states after and before each turn, or after each candidate and before it.
    """

    recorded: Trajectory
    states: Sequence[State]
    pairs: Sequence[tuple[int, int]]
    turns: Sequence[Candidates]
    candidates: bool = False


def dialogue_unit(recorded: Trajectory, turns: Sequence[Candidates], end: float) -> Unit:
    """All turns of an episode, whose end is worth `end`."""
    states = [State(episode, turns) for turns, episode in enumerate(states_of(recorded))]
    states[-1].over, states[-1].values = True, [end]
    pairs = [(turn + 1, turn) for turn in range(len(states) - 1)]
    return Unit(recorded, states, pairs, turns)


def candidates_unit(recorded: Trajectory, row: Candidates) -> Unit:
    """A turn's candidates; equal ones are one state.

    Raises:
        DataError: the turn is not in the episode.
    """
    turn, own = row.key[2], own_turns(recorded)
    if turn >= len(own) or own[turn].prompt != row.prompt:
        problem = f"is not the prompt of turn {turn} of {row.key[:2]} in the trajectory file"
        repair = "Name the file from which the candidates were sampled (--trajectories)."
        raise DataError(problem, line=row.line, field="input", value=row.prompt, repair=repair)
    before, places = states_of(recorded)[turn], dict[str, int]()
    states, pairs = [State(before, turn)], []
    for one in row.candidates:
        if one.text not in places:
            places[one.text] = len(states)
            finish = FinishReason.LENGTH if one.cut else FinishReason.STOP
            taken = Generation(row.prompt, Completion(one.text, one.token_ids, None, finish))
            states.append(State(replace(before, said=(*before.said, taken)), turn))
        pairs.append((places[one.text], 0))
    return Unit(recorded, states, pairs, [row], candidates=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How often states are played on: `fixed` times each, or until intervals have the half-width `target`."""

    target: float
    fixed: int | None
    most: int
    bounds: Bounds

    def wanted(self, unit: Unit) -> list[int]:
        """How many continuations each state should have, by what is known of its spread.

        The variances of a turn's two means are to sum to (target / t)^2; continuations are fewest where each state
        has them in proportion to its standard deviation (Neyman 1934).
        """
        numbers = [0 if one.over else len(one.values) for one in unit.states]
        if self.fixed is not None:
            return numbers
        spreads = []
        for state, number in zip(unit.states, numbers, strict=True):
            found, width = state.estimate(self.bounds), 0.0
            if number and found.low is not None and found.high is not None:
                width = student(number - 1) * found.error if found.error else (found.high - found.low) / 2
            spreads.append(width * math.sqrt(number))
        more = list(numbers)
        for pair in unit.pairs:
            _, low, high = worth(unit.states[pair[0]], unit.states[pair[1]], self.bounds)
            if high - low <= 2 * self.target + 1e-9:
                continue
            both = sum(spreads[place] for place in pair)
            needs = {place: math.ceil(spreads[place] * both / self.target**2) for place in pair}
            if all(numbers[place] >= needs[place] for place in pair):  # rounding, degrees of freedom
                widest = max(pair, key=lambda place: spreads[place] / math.sqrt(numbers[place] or math.inf))
                needs[widest] = numbers[widest] + max(1, numbers[widest] // 8)
            for place, need in needs.items():
                more[place] = max(more[place], need if numbers[place] else 0)
        return [max(number, min(want, self.most)) for number, want in zip(numbers, more, strict=True)]


Job = tuple[Trajectory, Sequence[Candidates]]
"""An episode with its turns, or with one of them and its candidates."""


class Recorder:
    """Plays on from states, in the world and with the human of the recorded episodes, and makes rows of what they were worth.

    Args:
        settings: what rows say of how they were made; its `measure` is "reward", or "success": a return is then 1 or 0.
        grader: of episodes that have no reward when they end: "auto" is the world's.
        at_once: continuations in flight.
    """

    def __init__(
        self,
        cast: Cast,
        recorded: Sequence[Trajectory],
        plan: Plan,
        settings: Mapping[str, Json],
        *,
        grader: str,
        at_once: int,
    ) -> None:
        self._cast, self._recorded, self.plan, self._settings = cast, recorded, plan, settings
        self._world, self._grader, self._at_once = cast.world, grader, at_once
        self._graded: dict[Any, asyncio.Task[float | None]] = {}
        self._pilots = list[tuple[Unit, int]]()
        self.stats, self.failed = RolloutStats(), list[Failure | None]()

    async def run(
        self, jobs: Sequence[Job], keep: Callable[[list[dict[str, Json]]], None], tell: Callable[[str], None]
    ) -> None:
        """Measure these; `keep` gets the rows of each when it is done, and `tell` the estimated cost, once.

        Raises:
            DataError: what is replayed differs from the record.
            ServiceError: continuations of a state give no return.
            UsageError: the policy always plays the same way; a grade differs from the recorded one.
        """
        cast, together = self._cast, max(1, self._at_once // 64)
        self._concurrency, self._tell, self._jobs = -(-self._at_once // together), tell, len(jobs)
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sweet_rl_credit_")))
            user = None
            if cast.human_served or cast.own_human:
                with tracking.role("user"):
                    user = await cast.make_user(self._at_once)
            if user is not None:  # it says again what it said
                stack.push_async_callback(user.close)
                user = Remembering(user, self._recorded)
            tasks = list({one.task.task_id: one.task for one, _ in jobs}.values())
            opening = cast.opened(tasks, concurrency=self._at_once, path=folder / "episodes.jsonl", user=user)
            self._playing = await stack.enter_async_context(opening)
            grading: dict[str, Any] = {} if self._grader == "auto" else {"grader": self._grader}
            self._batcher = grading_as_they_end(grading_of(cast.options, grading, folder=folder))
            stack.push_async_callback(self._batcher.close)
            self._started = time.monotonic()

            async def one_of(job: Job) -> None:
                recorded, turns = job
                if "additional_outputs" in turns[0].row:
                    unit = candidates_unit(recorded, turns[0])
                else:
                    unit = dialogue_unit(recorded, turns, await self._end_of(recorded))
                await self._measure(unit)
                keep(rows_of(unit, self.plan, self._world, self._settings))

            await for_each(jobs, one_of, at_once=min(together, len(jobs)))

    def _value(self, one: Trajectory) -> float | None:
        """The return of an episode that has its reward; None where it has none."""
        if one.failed or one.reward is None or self._settings["measure"] == "reward":
            return None if one.failed else one.reward
        won = self._world.succeeded(one.reward, one.extra, self._cast.options)
        if won is None:
            raise UsageError(f"{self._world.name} does not say what a success is: use --measure reward.")
        return float(won)

    async def _return_of(self, one: Trajectory) -> float | None:
        """The return of an episode; equal answers are graded once."""
        if one.failed or one.reward is not None:
            return self._value(one)
        said = tuple(message.content for message in one.dialogue_history)
        key = (one.task.task_id, one.answer if self._grader == "auto" else said)
        if key not in self._graded:

            async def grade() -> float | None:
                return self._value(await self._batcher.submit(one))

            self._graded[key] = asyncio.create_task(grade())
        return await self._graded[key]

    async def _end_of(self, one: Trajectory) -> float:
        """The return of a recorded episode; a UsageError where it was graded otherwise than continuations are."""
        again = await self._return_of(replace(one, reward=None)) if one.task.test_cases else self._value(one)
        if again is None or (known := self._value(one)) is None or abs(again - known) > 1e-9:
            raise UsageError(
                f"The reward of {one.key} is {one.reward}, and graded again it is {again}: its file was graded with other settings. "
                f"Grade it anew: sweet-rl {self._world.scores.stage} FILE --regrade."
            )
        return known

    async def _measure(self, unit: Unit) -> None:
        """Play on from the states of a unit, round by round."""
        plan, states, first = self.plan, unit.states, True
        counts = [0 if one.over else plan.fixed or FIRST for one in states]
        while any(counts):
            chosen = [(state, count) for state, count in zip(states, counts, strict=True) if count]
            found = await continuations(
                [state.episode for state, _ in chosen],
                self._playing.policy,
                [count for _, count in chosen],
                make_env=self._playing.make_env,
                seed=self._cast.seed,
                concurrency=self._concurrency,
                first=[state.played for state, _ in chosen],
                stats=self.stats,
            )
            for (state, _), some in zip(chosen, found, strict=True):
                check_replay(unit.recorded, some, state.given)
            returns = iter(await asyncio.gather(*(self._return_of(one) for some in found for one in some)))
            for (state, _), some in zip(chosen, found, strict=True):
                state.played += len(some)
                state.values += [value for _ in some if (value := next(returns)) is not None]
                turns = {sum(each.role == "assistant" for each in one.dialogue_history) for one in some}
                self.failed += [one.error for one in some if one.failed]
                state.over = not any(one.failed for one in some) and turns == {len(state.episode.said)}
                state.alike &= (
                    len({tuple(each.content for each in one.dialogue_history) for one in some}) == 1
                )
                if len(state.values) < 2:
                    why = next((one.error for one in some if one.error), "they have no reward")
                    raise ServiceError(f"Continuations of {unit.recorded.key} give no return: {why}.")
            wanted = plan.wanted(unit)
            if first:
                self._look_at(unit, sum(wanted))
            first = False
            counts = [
                0 if one.over else max(0, min(want, GROWTH * len(one.values)) - len(one.values))
                for one, want in zip(states, wanted, strict=True)
            ]

    def _look_at(self, unit: Unit, wanted: int) -> None:
        """After the first round of the first dialogues: what all of them will cost, and whether the policy draws at all."""
        self._pilots.append((unit, wanted))
        if len(self._pilots) != min(_PILOTS, self._jobs):
            return
        live = [state for one, _ in self._pilots for state in one.states if state.played and not state.over]
        if live and all(state.alike for state in live):
            raise UsageError(
                f"The policy {self._playing.policy.name!r} went the same way in all {FIRST} continuations of each state, so "
                "there is nothing to take the mean of. Name one that draws its turns (--temperature above 0)."
            )
        episodes = sum(number for _, number in self._pilots) / len(self._pilots) * self._jobs
        seconds = (time.monotonic() - self._started) / max(1, self.stats.episodes) * episodes
        self._tell(
            f"About {episodes:,.0f} continuations will be played, in {seconds:,.0f} s "
            f"(estimated by the first {len(self._pilots)} of {self._jobs})."
        )


def rows_of(unit: Unit, plan: Plan, world: World, settings: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The rows of a measured unit: one for each turn, or for the turn whose candidates they are."""
    found, bounds = list[dict[str, Json]](), plan.bounds
    judge, hidden = world.scores.good_turn, unit.recorded.task.ground_truth

    def kind(said: str, before: Sequence[Message], state: State) -> dict[str, Json]:
        """What kind of turn it is, and whether it was said before."""
        good = None if state.over else judge(hidden, before, said)
        told = "last" if state.over else {None: "turn", True: "useful", False: "useless"}[good]
        again = any(one.role == "assistant" and one.content.strip() == said.strip() for one in before)
        return {"kind": told, "repeat": again}

    history = unit.recorded.dialogue_history
    places = [place for place, one in enumerate(history) if one.role == "assistant"]
    for number, turn in enumerate(unit.turns):
        texts = [one.text for one in turn.candidates]
        row = key_fields(turn.key) | {"turn_digest": turn_digest(turn.prompt, *texts)}
        before = history[: places[turn.key[2]]]
        if unit.candidates:
            pairs = unit.pairs
            said = [
                kind(text, before, unit.states[after]) for text, (after, _) in zip(texts, pairs, strict=True)
            ]
            row |= {name: [one[name] for one in said] for name in ("kind", "repeat")}
            measured: dict[str, Json] = {"before": unit.states[0].as_row(bounds)}
            measured["candidates"] = [
                unit.states[after].as_row(bounds)
                | dict(
                    zip(
                        ("advantage", "advantage_low", "advantage_high"),
                        worth(unit.states[after], unit.states[0], bounds),
                        strict=True,
                    )
                )
                for after, _ in pairs
            ]
        else:
            after, earlier = (unit.states[place] for place in unit.pairs[number])
            row |= kind(history[places[number]].content, before, after)
            advantage, low, high = worth(after, earlier, bounds)
            measured = {"advantage": advantage, "low": low, "high": high}
            measured |= {"before": earlier.as_row(bounds), "after": after.as_row(bounds)}
        measured["allocation"] = "stopped" if plan.fixed is None else "fixed"
        found.append(row | {"measured": measured, "settings": dict(settings)})
    return found
