"""Preference pairs: of whole dialogues of one task (the critic's data), and of single turns' candidates (the policy's).

Dialogues with code (`trajectory_pairs`): a task gives pairs when its best repeat is right (reward at least 1): the first
best one is preferred to every repeat with a smaller reward. Pages (`margin_pairs`): of any two repeats whose rewards
differ by a margin the better one is preferred. Turns (`draw_pairs`): candidates with a larger score are preferred.

Published behaviour: docs/published/sweet_rl.md#trajectory-pairs, #step-pairs, #grading-pages, #files,
#in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, FinishReason, Json, Message, Trajectory, derive_seed

if TYPE_CHECKING:
    from sweet_rl.preferences.candidates import Candidates

PREFIX = "In light that the final answer is: {ground_truth}."
"""What precedes a dialogue whose reader is given the hidden solution."""
TurnKey = tuple[str, int, int]
"""task_id, sample_index, turn_index; the last counts the agent's turns from 0."""
KEY_FIELDS = ("task_id", "sample_index", "turn_index")
"""The fields of a row that hold its key."""
HARD_NEGATIVE, TWIN = "hard negative", "twin"
"""What the field `guard` of a row says that is no ordinary pair."""
INTRODUCTION = "In light that the final answer is this page:"


def with_solution(prompt: str, ground_truth: str) -> str:
    """The prompt as the critic reads it: the hidden solution directly before it."""
    return PREFIX.format(ground_truth=ground_truth) + prompt


def key_of(row: Mapping[str, Json]) -> TurnKey:
    """The identity of a row that our stages wrote."""
    return row.get("task_id", ""), row.get("sample_index", 0), row.get("turn_index", 0)


def key_fields(key: TurnKey) -> dict[str, Json]:
    """The identity as fields of a row."""
    return dict(zip(KEY_FIELDS, key, strict=True))


def twice(path: str | Path | None, line: int, field: str, value: Json, earlier: int) -> DataError:
    """The error of a row with the same identity as line `earlier`."""
    repair = f"Delete this line or line {earlier}."
    return DataError("is in the file twice", path=path, line=line, field=field, value=value, repair=repair)


def each_once(
    rows: Iterable[tuple[int, object]], trajectories: Iterable[Trajectory], path: str | Path | None
) -> Iterator[tuple[int, Trajectory]]:
    """Trajectories with the lines of their rows; a DataError at one that the file had before."""
    lines = dict[tuple[str, int], int]()
    for (line, _), one in zip(rows, trajectories, strict=False):
        if (earlier := lines.setdefault(one.key, line)) != line:
            raise twice(path, line, "task_id, sample_index", one.key, earlier)
        yield line, one


class TrajectoryPair(NamedTuple):
    """Row indices of the preferred and the other repeat of one task."""

    chosen: int
    rejected: int


def trajectory_pairs(
    rewards: Sequence[float], groups: Sequence[Sequence[int]], usable: Sequence[bool] | None = None
) -> list[TrajectoryPair]:
    """All pairs, in task order, then repeat order.

    `rewards` and `usable` are of rows, `groups` the places of each task's repeats
    (`sweet_rl.records.rows.group_by_task`). A row without a final agent turn is not usable.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        members = [row for row in group if usable is None or usable[row]]
        best = max((rewards[row] for row in members), default=0.0)
        if best >= 1:
            chosen = next(row for row in members if rewards[row] == best)
            pairs += [TrajectoryPair(chosen, row) for row in members if rewards[row] < best]
    return pairs


def margin_pairs(
    rewards: Sequence[float | None],
    groups: Sequence[Sequence[int]],
    margin: float,
    usable: Sequence[bool] | None = None,
) -> list[TrajectoryPair]:
    """All pairs of repeats whose rewards differ by `margin` (above 0) or more, in task order, then repeat order.

    Rows without a reward stand in no pair; otherwise as `trajectory_pairs`.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        members = [row for row in group if usable is None or usable[row]]
        known = [(row, reward) for row in members if (reward := rewards[row]) is not None]
        for (row, reward), (later, other) in combinations(known, 2):
            if abs(reward - other) >= margin:
                pairs.append(TrajectoryPair(row, later) if reward > other else TrajectoryPair(later, row))
    return pairs


def pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, Json]]:
    """The pairs as rows of a published preference file: `{"chosen": text, "rejected": text}`.

    A text is the last turn's prompt and output. Where that does not hold what an earlier turn was given and
    wrote (a chat template that strips thoughts from the history), the row has `chosen_turns` or
    `rejected_turns`, too: every turn of the agent as `{"input", "output"}`.
    """
    rows = []
    for pair in pairs:
        row: dict[str, Json] = {}
        for side, number in (("chosen", pair.chosen), ("rejected", pair.rejected)):
            turns = _turns_of(trajectories[number], with_ground_truth=with_ground_truth)
            row[side] = turns[-1]["input"] + turns[-1]["output"]
            if any(not two["input"].startswith(one["input"] + one["output"]) for one, two in pairwise(turns)):
                row[f"{side}_turns"] = turns
        rows.append(row)
    return rows


def turn_pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, dict[str, str]]]:
    """The pairs as rows of a published file for pages: `{"input", "output"}` on each side."""
    return [
        {
            side: _turns_of(trajectories[number], with_ground_truth=with_ground_truth)[-1]
            for side, number in pair._asdict().items()
        }
        for pair in pairs
    ]


def _turns_of(trajectory: Trajectory, *, with_ground_truth: bool) -> list[dict[str, str]]:
    """The agent's turns, of which the last one ends the dialogue."""
    if trajectory.last_turn is None:
        raise ValueError(f"trajectory {trajectory.key} does not end with an agent turn")
    solution = with_solution("", trajectory.task.ground_truth) if with_ground_truth else ""
    turns = [turn for turn in trajectory.dialogue_history if isinstance(turn, AgentTurn)]
    return [{"input": solution + turn.input, "output": turn.output} for turn in turns]


class StepPair(NamedTuple):
    """Places of the preferred and the other candidate in their row."""

    chosen: int
    rejected: int


Scores = Sequence[float | None]
# Places of the candidates that may be rejected, and of those that may be chosen, by ascending score.
Sides = tuple[list[int], list[int]]


def halves(scores: Scores) -> Sides:
    """The smaller against the larger half of the scores.

    Of an odd number the middle one is in the upper half. Equal scores keep their order. Candidates without a
    score are on neither side.
    """
    order = sorted((i for i, score in enumerate(scores) if score is not None), key=lambda i: scores[i] or 0.0)
    return order[: len(order) // 2], order[len(order) // 2 :]


def across(scores: Scores) -> Sides:
    """The scores below the middle of their range against those at it or above."""
    lower, upper = halves(scores)
    order = lower + upper
    known = [scores[place] or 0.0 for place in order]
    below = sum(score < (known[0] + known[-1]) / 2 for score in known)
    return order[:below], order[below:]


def best(scores: Scores) -> Sides:
    """The smaller half against the largest score; of several that are largest, those in the larger half."""
    lower, upper = halves(scores)
    return lower, [place for place in upper if scores[place] == scores[upper[-1]]]


DRAWS: Final[Mapping[str, Callable[[Scores], Sides]]] = {"halves": halves, "across": across, "best": best}
"""How candidates are divided, by name."""


def allowed_pairs(
    row: Candidates, *, draws: str = "halves", margin: float = 0.0, min_score: float | None = None
) -> list[StepPair]:
    """Every pair of a ranked turn's two sides that says something: another text, a score larger by `margin`.

    Ties are never pairs. A chosen candidate has a score of at least `min_score`: with 0 and scores that are
    advantages, none is chosen that the critic likes less than the sampler does.
    """
    scores = [score or 0.0 for score in row.scores or ()]
    lower, upper = DRAWS[draws](row.scores or ())
    return [
        StepPair(better, worse)
        for better in upper
        if min_score is None or scores[better] >= min_score
        for worse in lower
        if (difference := scores[better] - scores[worse]) > 0
        and difference >= margin
        and row.candidates[better].text != row.candidates[worse].text
    ]


def draw_pairs(
    row: Candidates,
    count: int,
    rng: random.Random,
    *,
    draws: str = "halves",
    margin: float = 0.0,
    min_score: float | None = None,
) -> list[StepPair]:
    """`count` pairs of `allowed_pairs`, uniformly: no two alike, so perhaps fewer."""
    pairs = allowed_pairs(row, draws=draws, margin=margin, min_score=min_score)
    first: dict[tuple[str, str], StepPair] = {}
    for pair in pairs:
        first.setdefault((row.candidates[pair.chosen].text, row.candidates[pair.rejected].text), pair)
    return rng.sample(list(first.values()), min(count, len(first)))


Judge = Callable[[str, Sequence[Message], str], bool | None]
"""A world's oracle (`World.scores.good_turn`), of hidden solution, dialogue before the turn, and turn."""


class RightPairs(NamedTuple):
    """Pairs of a good turn and another, the right way and the wrong way round; pairs of two alike."""

    right: int
    wrong: int
    alike: int


def right_pairs(
    rows: Sequence[Candidates], drawn: Sequence[Sequence[StepPair]], judge: Judge
) -> RightPairs | None:
    """How many pairs an oracle agrees with; None where it judges no pair."""
    counts: Counter[int] = Counter()
    for row, pairs in zip(rows, drawn, strict=True):
        messages = row.before
        for pair in pairs:
            good = [judge(row.ground_truth, messages, row.candidates[place].text) for place in pair]
            if None not in good:
                counts[bool(good[0]) - bool(good[1])] += 1
    return RightPairs(counts[1], counts[-1], counts[0]) if counts else None


def published_draws(
    rows: Sequence[Candidates],
    count: int,
    rng: random.Random,
    *,
    get_sft: bool,
    path: str | Path | None = None,
) -> list[list[StepPair]]:
    """The published draws, in the published sequence of random numbers (held to recorded outputs).

    One place of each half, with repetition; the larger score is preferred, on a tie the upper half's place.
    With `get_sft` both sides are one random candidate. All rows have as many candidates as the first one.
    """

    def draw(scores: Sequence[float]) -> StepPair:
        n = len(scores)
        if get_sft:
            place = rng.sample(range(n), 2)[0]
            return StepPair(place, place)
        lower, upper = halves(scores)
        low, high = lower[rng.randint(0, n // 2 - 1)], upper[rng.randint(n // 2, n - 1) - n // 2]
        return StepPair(low, high) if scores[low] > scores[high] else StepPair(high, low)

    expected = len(rows[0].candidates)
    drawn: list[list[StepPair]] = []
    for row in rows:
        scores = [score for score in row.scores or () if score is not None]
        if len(scores) != expected or expected < 2:
            raise DataError(
                f"must have {max(expected, 2)} scores, as many as the first row has candidates",
                path=path,
                line=row.line,
                field="judge_result",
                value=row.scores,
                repair="Leave --compat published out: rows may differ then.",
            )
        drawn.append([draw(scores) for _ in range(count)])
    return drawn


def pair_row(
    row: Candidates, pair: StepPair, *, end_token: str, no_prompt: bool, published: bool = False
) -> dict[str, Json]:
    """One row of a pair file: published fields, then ours.

    The end token follows a candidate unless the token limit had cut it; published: always.
    `*_token_ids` are the response's, so they are left out where the texts hold the prompt too.
    """

    def side(place: int) -> str:
        candidate = row.candidates[place]
        text = candidate.text + end_token if published else candidate.closed(end_token)
        return row.prompt + text if no_prompt else text

    result: dict[str, Json] = {} if no_prompt else {"prompt": row.prompt}
    result |= {"chosen": side(pair.chosen), "rejected": side(pair.rejected)}
    if published:  # it draws pairs of two that are alike, too
        alike = pair.chosen != pair.rejected and result["chosen"] == result["rejected"]
        return result | ({"guard": "twin"} if alike else {})
    ids = [row.candidates[place].token_ids for place in pair]
    if row.tokenizer is not None:
        result["tokenizer"] = row.tokenizer
        if not no_prompt and None not in ids:
            result |= {"chosen_token_ids": list(ids[0] or ()), "rejected_token_ids": list(ids[1] or ())}
    return result | key_fields(row.key) | {"chosen_index": pair.chosen, "rejected_index": pair.rejected}


def why_unusable(
    rows: Sequence[Candidates], *, draws: str = "halves", margin: float = 0.0, min_score: float | None = None
) -> str:
    """In words, why no row gives a pair."""
    reasons: Counter[str] = Counter()
    for row in rows:
        scores = [score for score in row.scores or () if score is not None]
        if len(scores) < 2:
            reasons["fewer than two scored candidates"] += 1
        elif len({candidate.text for candidate in row.candidates}) == 1:
            reasons["candidates that are all the same text"] += 1
        elif max(scores) == min(scores):
            reasons["scores that are all the same"] += 1
        elif max(scores) - min(scores) < margin:
            reasons[f"scores closer than --margin {margin:g}"] += 1
        elif min_score is not None and max(scores) < min_score:
            reasons[f"no score of --min_score {min_score:g} or more"] += 1
        elif not allowed_pairs(row, draws=draws, margin=margin, min_score=min_score):
            reasons["two sides that differ in no text and score"] += 1
    return "; ".join(f"{count} of {len(rows)} rows have {reason}" for reason, count in reasons.most_common())


def _guard(
    key: TurnKey, prompt: str, chosen: str, rejected: str, *, kind: str, no_prompt: bool
) -> dict[str, Json]:
    before = prompt if no_prompt else ""
    sides: dict[str, Json] = {"chosen": before + chosen, "rejected": before + rejected}
    return ({} if no_prompt else {"prompt": prompt}) | sides | key_fields(key) | {"guard": kind}


def hard_negatives(
    row: Candidates,
    pairs: Sequence[StepPair],
    count: int,
    rng: random.Random,
    *,
    end_token: str,
    no_prompt: bool,
) -> list[dict[str, Json]]:
    """At most `count` rows in which a chosen candidate of these pairs stands against an earlier turn of the agent.

    Earlier turns are as their model wrote them. A candidate equal to one is never the better side; none comes twice.
    """
    said = [one for one in (row.row.get("messages") or [])[:-1] if one.get("role") == "assistant"]
    texts = (one.get("output") or one.get("content") for one in said)
    earlier = list(dict.fromkeys(text for text in texts if isinstance(text, str) and text))
    fresh = [pair.chosen for pair in pairs if row.candidates[pair.chosen].text not in earlier]
    found: list[dict[str, Json]] = []
    for text in rng.sample(earlier, min(count, len(earlier))) if fresh else []:
        chosen = row.candidates[rng.choice(fresh)].closed(end_token)
        sides = (row.prompt, chosen, text + end_token)
        found.append(_guard(row.key, *sides, kind=HARD_NEGATIVE, no_prompt=no_prompt))
    return found


def dialogue_hard_negatives(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], count: int
) -> list[dict[str, Json]]:
    """At most `count` rows for each pair of dialogues, likewise, from turns of the better dialogue.

    The same pairs give the same rows. As in rows of whole dialogues, no end token closes a turn.
    """
    rows: list[dict[str, Json]] = []
    for pair in pairs:
        trajectory = trajectories[pair.chosen]
        history = trajectory.dialogue_history
        turns = [entry for entry in history if isinstance(entry, AgentTurn) and entry.input]
        outputs = [turn.output for turn in turns]
        fresh = [place for place, output in enumerate(outputs) if place and output not in outputs[:place]]
        rng = random.Random(derive_seed(0, *trajectory.key, pair.rejected))
        for place in rng.sample(fresh, min(count, len(fresh))):
            before = rng.choice(outputs[:place])
            sides: dict[str, Json] = {"chosen": outputs[place], "rejected": before}
            rows.append({"prompt": turns[place].input} | sides | {"guard": HARD_NEGATIVE})
    return rows


def twin(row: Candidates, *, end_token: str, no_prompt: bool) -> dict[str, Json] | None:
    """The turn that was taken in the dialogue, on both sides; None where the row does not say which."""
    taken = row.row.get("older_output")
    if not isinstance(taken, str) or not taken:
        return None
    text = taken + end_token
    return _guard(row.key, row.prompt, text, text, kind=TWIN, no_prompt=no_prompt)


def twins_of(trajectory: Trajectory, *, end_token: str, no_prompt: bool) -> list[dict[str, Json]]:
    """Every turn of a dialogue that was given a prompt, on both sides."""
    found: list[dict[str, Json]] = []
    turns = [entry for entry in trajectory.dialogue_history if entry.role == "assistant"]
    for index, turn in enumerate(turns):
        if isinstance(turn, AgentTurn) and turn.input and turn.output:
            text = turn.output if turn.finish_reason is FinishReason.LENGTH else turn.output + end_token
            key = (*trajectory.key, index)
            found.append(_guard(key, turn.input, text, text, kind=TWIN, no_prompt=no_prompt))
    return found


def succeeded(row: Candidates, least: float = 1.0) -> bool:
    """Whether the dialogue of a turn was rewarded with at least so much."""
    reward = row.row.get("reward")
    return isinstance(reward, int | float) and reward >= least


def shown_pairs(
    pairs: Iterable[tuple[int, Mapping[str, Json]]],
    trajectories: Sequence[Trajectory],
    targets: Sequence[str],
    *,
    path: str,
) -> list[dict[str, Json]]:
    """Each pair as two lists of messages, the target's picture first.

    Pairs are rows `{"chosen": {"input", "output"}, "rejected": ...}` with their lines, with or without the
    hidden page before the input, made of these trajectories; `targets` are paths of their target pictures, as
    the messages shall name them.
    """
    by_key: dict[tuple[Any, Any], int] = {}
    for index, trajectory in enumerate(trajectories):
        last = trajectory.last_turn
        if last is not None:
            by_key.setdefault((last.input, last.output), index)
            by_key.setdefault((with_solution(last.input, trajectory.task.ground_truth), last.output), index)

    def side(row: Mapping[str, Json], line: int, field: str) -> list[Json]:
        value = row.get(field)
        index = by_key.get((value.get("input"), value.get("output"))) if isinstance(value, dict) else None
        if index is None:
            raise DataError(
                "is the last turn of none of the trajectories",
                path=path,
                line=line,
                field=field,
                value=value,
                repair="Name the trajectory file that sweet-rl evaluate_html made these pairs of, as it was then.",
            )
        content = [{"type": "text", "text": INTRODUCTION}, {"type": "image", "image": targets[index]}]
        *before, last = trajectories[index].dialogue_history  # messages as later prompts had them
        said = last.output if isinstance(last, AgentTurn) else ""
        return [
            {"role": "system", "content": content},
            *({"role": message.role, "content": message.content} for message in before),
            {"role": "assistant", "content": said},
        ]

    return [{name: side(row, line, name) for name in ("chosen", "rejected")} for line, row in pairs]
