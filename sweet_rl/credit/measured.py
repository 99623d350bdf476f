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
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.interface.grades import grading_as_they_end, grading_of
from sweet_rl.learning.continuations import Remembering, check_replay, continuations, states_of
from sweet_rl.players.cast import Cast
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.credit import digest_of, own_turns
from sweet_rl.preferences.pairs import key_fields
from sweet_rl.rollout import Episode, RolloutStats
from sweet_rl.statistics import mean_of, student
from sweet_rl.types import Completion, Failure, FinishReason, Generation, Json, Trajectory
from sweet_rl.worlds import World

FIRST: Final = 8  # continuations of every state in the first round
GROWTH: Final = 3  # a round brings a state's number to so many times what it was, at most
_PILOTS: Final = 8  # dialogues by whose first round the cost of all is estimated

# the lowest and the highest return, as far as there are such; those of the recorded episodes
Bounds = tuple[float | None, float | None, float, float]


class Interval(NamedTuple):
    """A mean with its 95 % interval and standard error."""

    mean: float
    low: float
    high: float
    error: float = 0.0


@dataclass(eq=False, slots=True)
class State:
    """A state of an episode, and the returns of what was played on from it."""

    episode: Episode
    given: int  # turns of the recorded episode that it begins with
    values: list[float] = field(default_factory=list)
    played: int = 0  # continuations, with those that failed
    over: bool = False  # the episode has ended: its return is known
    alike: bool = True  # all that was played on went the same way

    def value(self, bounds: Bounds) -> Interval:
        """Its value, with Student's interval; where all returns are equal, that allows for others that were not drawn."""
        if self.over:
            return Interval(*self.values[:1] * 3)
        low, high, least, most = bounds
        found = mean_of(self.values, low=low, high=high)
        if not found.error:  # in a world without bounds: others as bad and as good as what was recorded
            low = min(found.mean, least) if low is None else low
            high = max(found.mean, most) if high is None else high
            found = mean_of(self.values, low=low, high=high)
        low, high = (found.mean if end is None else end for end in (found.low, found.high))
        return Interval(found.mean, low, high, found.error or 0.0)

    def as_row(self, bounds: Bounds) -> dict[str, Json]:
        """The value as rows have it."""
        mean, low, high, _ = self.value(bounds)
        return {"mean": mean, "low": low, "high": high, "n": 0 if self.over else len(self.values)}


def worth(after: State, before: State, bounds: Bounds) -> Interval:
    """The value after a turn minus that before it: Welch's interval, since the two are drawn independently.

    A state whose returns are all equal does not tell their spread. What its own interval allows for is added in
    quadrature (Zou and Donner 2008, Statistics in Medicine 27).
    """
    one, other = after.value(bounds), before.value(bounds)
    both = ((one, after), (other, before))
    parts = [(found.error**2, len(state.values) - 1) for found, state in both if found.error]
    total, half = sum(part for part, _ in parts), 0.0
    if parts:
        freedom = total**2 / sum(part**2 / number for part, number in parts)
        half = student(int(freedom + 1e-9)) * math.sqrt(total)
    slack = [(0.0, 0.0) if it.error else (it.mean - it.low, it.high - it.mean) for it, _ in both]
    (down, up), (more, less), mean = *slack, one.mean - other.mean
    return Interval(mean, mean - math.hypot(half, down, less), mean + math.hypot(half, up, more))


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
    """A turn's candidates; equal ones are one state."""
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


@dataclass(frozen=True)
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
            _, low, high, error = state.value(self.bounds)
            spreads.append(math.sqrt(number) * (student(number - 1) * error if error else (high - low) / 2))
        more = list(numbers)
        for pair in unit.pairs:
            found = worth(unit.states[pair[0]], unit.states[pair[1]], self.bounds)
            if found.high - found.low <= 2 * self.target + 1e-9:
                continue
            both = sum(spreads[place] for place in pair)
            for place in pair:  # a little more where degrees of freedom and rounding leave it too wide
                least = math.ceil(numbers[place] * 9 / 8) if spreads[place] * 2 >= both else 0
                need = max(least, math.ceil(spreads[place] * both / self.target**2))
                more[place] = max(more[place], need if numbers[place] else 0)
        return [max(number, min(want, self.most)) for number, want in zip(numbers, more, strict=True)]


Job = tuple[Trajectory, Sequence[Candidates]]  # an episode with its turns, or with a turn and its candidates


class _Numbered(dict[tuple[str, int], int]):
    """The repeats of episodes, by which worlds name pictures: another one each time, as those played on share their seed."""

    def get(self, *_: Any) -> int:
        self["", 0] += 1
        return self["", 0]


@dataclass(eq=False)
class Recorder:
    """Plays on from states, in the world and with the human of the recorded episodes, and makes rows of what they were worth.

    `settings` are what rows say of how they were made; where their `measure` is "success", a return is 1 or 0. `failed` are the
    errors of continuations, which count for nothing.
    """

    cast: Cast
    recorded: Sequence[Trajectory]
    plan: Plan
    settings: Mapping[str, Json]
    grader: str = "auto"
    at_once: int = 512
    stats: RolloutStats = field(default_factory=RolloutStats)
    failed: list[Failure | None] = field(default_factory=list)
    _graded: dict[tuple[str, Any], asyncio.Task[Trajectory]] = field(default_factory=dict)

    async def run(
        self, jobs: Sequence[Job], keep: Callable[[list[dict[str, Json]]], None], tell: Callable[[str], None]
    ) -> None:
        """Measure these; `keep` gets the rows of each when it is done, and `tell` the estimated cost, once."""
        cast, together, pilots = self.cast, max(1, self.at_once // 64), list[tuple[Unit, int]]()
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sweet_rl_credit_")))
            user = None
            if cast.human_served or cast.own_human:  # it says again what it said
                with tracking.role("user"):
                    asked: Any = await cast.make_user(self.at_once)
                stack.push_async_callback(asked.close)
                user = Remembering(asked, self.recorded)
            tasks = list({one.task.task_id: one.task for one, _ in jobs}.values())
            where: dict[str, Any] = {"path": folder / "episodes.jsonl", "samples": _Numbered({("", 0): 0})}
            opening = cast.opened(tasks, concurrency=self.at_once, user=user, **where)
            playing = await stack.enter_async_context(opening)
            grading: dict[str, Any] = {} if self.grader == "auto" else {"grader": self.grader}
            self._grades = grading_as_they_end(grading_of(cast.options, grading, folder=folder))
            stack.push_async_callback(self._grades.close)
            how: dict[str, Any] = {"make_env": playing.make_env, "seed": cast.seed, "stats": self.stats}
            how |= {"policy": playing.policy, "concurrency": -(-self.at_once // together)}
            play = partial(continuations, **how)
            started = time.monotonic()

            def look_at(unit: Unit, wanted: int) -> None:
                """After the first round of the first ones: what all will cost, and whether the policy draws at all."""
                pilots.append((unit, wanted))
                if len(pilots) != min(_PILOTS, len(jobs)):
                    return
                live = [state for one, _ in pilots for state in one.states if state.played and not state.over]
                if live and all(state.alike for state in live):
                    always = f"The policy {playing.policy.name!r} went the same way in all continuations of each state."
                    raise UsageError(f"{always} Name one that draws its turns (--temperature above 0).")
                episodes = sum(number for _, number in pilots) / len(pilots) * len(jobs)
                seconds = (time.monotonic() - started) / max(1, self.stats.episodes) * episodes
                by = f"estimated by the first {len(pilots)} of {len(jobs)}"
                tell(f"About {episodes:,.0f} continuations will be played, in {seconds:,.0f} s ({by}).")

            async def one_of(job: Job) -> None:
                recorded, turns = job
                if "additional_outputs" in turns[0].row:
                    unit = candidates_unit(recorded, turns[0])
                else:
                    unit = dialogue_unit(recorded, turns, await self._end_of(recorded))
                await self._measure(unit, play, look_at)
                keep(rows_of(unit, self.plan, cast.world, self.settings))

            await for_each(jobs, one_of, at_once=min(together, len(jobs)))

    def _value(self, one: Trajectory) -> float | None:
        """The return of an episode that has its reward; None where it has none."""
        if one.failed or one.reward is None or self.settings["measure"] == "reward":
            return None if one.failed else one.reward
        won = self.cast.world.succeeded(one.reward, one.extra, self.cast.options)
        if won is None:
            raise UsageError(f"{self.cast.world.name} does not say what a success is: use --measure reward.")
        return float(won)

    async def _return_of(self, one: Trajectory) -> float | None:
        """The return of an episode; equal answers to equal tasks are graded once."""
        if one.failed or (one.reward is not None and self.grader == "auto"):
            return self._value(one)
        said = tuple(message.content for message in one.dialogue_history)
        key = (f"{one.task} {one.task.row}", one.answer if self.grader == "auto" else said)
        if key not in self._graded:
            self._graded[key] = asyncio.create_task(self._grades.submit(one))
        return self._value(await self._graded[key])

    async def _end_of(self, one: Trajectory) -> float:
        """The return of a recorded episode; a UsageError where it was graded otherwise than continuations are."""
        known, by_tests = self._value(one), bool(one.task.test_cases)
        again = await self._return_of(replace(one, reward=None)) if by_tests else known
        if known is None or again is None or abs(again - known) > 1e-9:
            problem = f"The reward of {one.key} is {one.reward}, and graded again it is {again}"
            raise UsageError(f"{problem}: grade the file with the usual settings, by --regrade.")
        return known

    async def _measure(self, unit: Unit, play: Callable[..., Any], look: Callable[[Unit, int], None]) -> None:
        """Play on from the states of a unit, round by round."""
        counts = [0 if one.over else self.plan.fixed or FIRST for one in unit.states]
        while any(counts):
            chosen = [state for state, count in zip(unit.states, counts, strict=True) if count]
            begun = [state.played for state in chosen]
            episodes = [state.episode for state in chosen]
            found = await play(episodes, n=list(filter(None, counts)), first=begun)
            for state, some in zip(chosen, found, strict=True):
                check_replay(unit.recorded, some, state.given)
            returns = iter(await asyncio.gather(*(self._return_of(one) for some in found for one in some)))
            for state, some in zip(chosen, found, strict=True):
                state.played += len(some)
                state.values += [value for _ in some if (value := next(returns)) is not None]
                failed = [one.error for one in some if one.failed]
                went = {tuple(each.content for each in one.dialogue_history) for one in some}
                turns = {sum(each.role == "assistant" for each in one.dialogue_history) for one in some}
                state.over = not failed and turns == {len(state.episode.said)}
                state.alike &= len(went) == 1
                self.failed += failed
                if len(state.values) < 2:
                    why = next(iter(failed), "they have no reward")
                    raise ServiceError(f"Continuations of {unit.recorded.key} give no return: {why}.")
            wanted = self.plan.wanted(unit)
            if not any(begun):
                look(unit, sum(wanted))
            counts = [
                0 if one.over else max(0, min(want, GROWTH * len(one.values)) - len(one.values))
                for one, want in zip(unit.states, wanted, strict=True)
            ]


def rows_of(unit: Unit, plan: Plan, world: World, settings: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The rows of a measured unit: one for each turn, or for the turn whose candidates they are."""
    rows, history = list[dict[str, Json]](), unit.recorded.dialogue_history
    places = [place for place, one in enumerate(history) if one.role == "assistant"]
    for number, turn in enumerate(unit.turns):
        texts, place = [one.text for one in turn.candidates], places[turn.key[2]]
        said = texts if unit.candidates else [history[place].content]
        earlier = {one.content.strip() for one in history[:place] if one.role == "assistant"}
        repeats, kinds = [text.strip() in earlier for text in said], list[str]()
        found = list[dict[str, Json]]()
        pairs = unit.pairs if unit.candidates else [unit.pairs[number]]
        for text, (after, before) in zip(said, pairs, strict=True):
            state, first = unit.states[after], unit.states[before]
            good = world.scores.good_turn(unit.recorded.task.ground_truth, history[:place], text)
            kinds.append("last" if state.over else {None: "turn", True: "useful", False: "useless"}[good])
            mean, low, high, _ = worth(state, first, plan.bounds)
            of_state, own = state.as_row(plan.bounds), {"advantage": mean, "low": low, "high": high}
            if unit.candidates:
                own = of_state | {"advantage": mean, "advantage_low": low, "advantage_high": high}
            found.append(own if unit.candidates else own | {"after": of_state})
        kind, repeat = (kinds, repeats) if unit.candidates else (kinds[0], repeats[0])
        measured: dict[str, Json] = {"candidates": found} if unit.candidates else found[0]
        measured["before"] = first.as_row(plan.bounds)
        measured["allocation"] = "stopped" if plan.fixed is None else "fixed"
        row = key_fields(turn.key) | {"turn_digest": digest_of(turn), "kind": kind, "repeat": repeat}
        rows.append(row | {"measured": measured, "settings": dict(settings)})
    return rows
