"""Whether a trainer's rows train what the agent said, by the advantages that their method says.

Rows of TRL, verl, OpenRLHF, SkyRL and verifiers, and our own exports, are read by their columns. Kinds of faults that
were found in trainers: advantages at other tokens (SkyRL#1492), a baseline that depends on how long an episode goes on
(verl#7244), long episodes that count more in it (agent-lightning#462), values that are normalised twice (gem#113).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from math import fsum
from statistics import fmean, pstdev, stdev
from typing import Any, Literal, NamedTuple

from sweet_rl.credit.methods import Steps, mt_grpo, mt_grpo_biased, returns_to_go
from sweet_rl.errors import DataError
from sweet_rl.types import Json, Trajectory

Claim = Literal["auto", "credit", "outcome", "turns", "other"]

# Columns by what they hold: the first that a row has is read, masks are multiplied.
IDS = ("completion_ids", "responses", "response_ids", "sequences", "input_ids")
MASKS = ("env_mask", "tool_mask", "completion_mask", "response_mask", "action_mask", "loss_mask")
GROUPS = ("uid", "task_id", "group_id", "prompt_id", "data_id", "index")
EPISODES = ("sample_index", "rollout_id", "traj_id", "traj_uid", "trajectory_id", "session_id", "episode_id")
REWARDS = ("turn_rewards", "token_level_rewards", "rm_scores", "rewards")
_NEAR = 1e-4
Said = Mapping[Any, Trajectory]  # by task and repeat


class Turn(NamedTuple):
    """A turn of a row: where its tokens are, its advantage, its credit and its reward, if the row has them."""

    line: int
    number: int
    span: tuple[int, int]
    advantage: float
    credit: float | None
    reward: float | None
    outcome: float | None
    credited: bool  # whether the row has credits

    def says(self, text: str) -> tuple[int, str]:
        """A finding about it."""
        return self.line, f"turn {self.number}: {text}"


@dataclass(slots=True)
class Row:
    """A row: tokens, which are trained, the advantage of each, and the turns."""

    line: int
    group: str
    episode: Hashable
    ids: list[int]
    mask: list[int]
    advantages: list[float]
    turns: list[Turn]
    wrong: list[str]


Episodes = Sequence[list[Turn]]  # the turns of a group


def runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Where ones stand together: first place, and the one behind the last."""
    parts = [[*places] for own, places in groupby(range(len(mask)), key=lambda at: bool(mask[at])) if own]
    return [(places[0], places[-1] + 1) for places in parts]


def _first(row: Mapping[str, Json], names: Sequence[str], kind: Any = (str, int, float, list)) -> Json:
    return next((row[name] for name in names if isinstance(row.get(name), kind)), None)


def read_row(line: int, row: Mapping[str, Json], path: str) -> Iterator[Row]:
    """The rows that a line holds: one, or those of an episode of traces or of a reply of `serve_credit`.

    Raises:
        DataError: it does not say which tokens are the agent's, or has something else than numbers.
    """
    try:
        for place, inner in enumerate([*(row.get("traces") or ()), *(row.get("dialogues") or ())]):
            own, group = f"{line}.{place}", (row.get("group") or {}).get("id")
            beside = {"advantages": row["advantages"][place]} if "dialogues" in row else {"uid": group}
            if "dialogues" in row or (inner.get("agent") or {}).get("trainable", True):
                yield from read_row(line, {"task_id": own, "episode_id": own, **inner, **beside}, path)
        if "traces" not in row and "dialogues" not in row:
            yield _row(line, row, path)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"cannot be read ({error})", path=path, line=line, repair="Write one episode, or one turn, a row; masks, advantages and rewards are lists of numbers.") from error  # fmt: skip


def _row(line: int, row: Mapping[str, Json], path: str) -> Row:
    """A row that is neither an episode of traces nor a reply."""
    task, wrong = row["task"] if isinstance(row.get("task"), dict) else {}, list[str]()
    named = _first({**(task.get("data") or {}), **task}, ("key", "id", "hash"))
    repeat = _first(row, EPISODES, (int, float, str, list, dict))
    repeat = str(repeat) if isinstance(repeat, list | dict) else repeat
    names = row.get("uid"), named, _first(row, GROUPS), row.get("prompt_ids"), line
    if isinstance(row.get("nodes"), list):
        row = _of_nodes(row, wrong)
    elif _first(row, IDS) is None and isinstance(row.get("messages"), list):  # a token stands for a turn
        count = sum(one.get("role") == "assistant" for one in row["messages"])
        spans, said = [(at, at + 1) for at in range(count)], row.get("advantages") or []
        numbers = [value or 0.0 for value in said][:count]
        row = {"completion_ids": [0] * count, "turn_spans": spans, "credit": said, "advantages": numbers}
    masks = {name: row[name] for name in MASKS if isinstance(row.get(name), list)}
    ids, given, one = _first(row, IDS, list), row.get("turn_spans"), row.get("turn_index")
    if ids is None or not (masks or given):
        raise DataError("has no spans of turns", path=path, line=line, repair="Write the tokens (completion_ids) and which are the agent's: a mask of ones and zeros (env_mask), or turn_spans ([[start, end], ...]).")  # fmt: skip
    width = min(map(len, masks.values()), default=len(ids))
    if "action_mask" in masks or "sequences" in row:  # OpenRLHF's masks are of the last tokens
        ids = ids[max(0, len(ids) - width) :]
    if {len(ids), *(lengths := [*map(len, masks.values())])} - {width}:
        wrong += [f"{len(ids)} tokens, but masks of {lengths}. Write a 1 or a 0 for each token"]
    mask = [int(all(float(own[at] or 0) for own in masks.values())) for at in range(width)]
    spans = [(start, end) for start, end in given] if given else runs(mask)
    places = [0, *chain.from_iterable(spans), width]
    if places != sorted(places):
        raise ValueError(f"turn_spans {spans} do not ascend within {width} tokens")
    mask = mask if masks else [int(any(start <= at < end for start, end in spans)) for at in range(width)]
    numbers = [one] if isinstance(one, int) else row.get("turn_indexes") or [*range(len(spans))]
    credit = [None if one is None else float(one) for one in _first(row, ["credit"], list) or ()] or None
    cut = not spans and any(map(any, masks.values()))  # the episode was too long to be trained
    own, advantages = None if cut else row.get("advantages", row.get("advantage")), list[float]()
    values: list[Any] = [own] * len(spans) if isinstance(own, int | float) else own or []
    if len(values) == width:
        advantages = _unmasked([math.nan if one is None else round(float(one), 6) for one in values], places)
    elif len(values) == len(spans):
        by = {at: float(one or 0.0) for span, one in zip(spans, values, strict=True) for at in range(*span)}
        advantages = [by.get(at, 0.0) for at in range(width)]
    elif values:
        wrong += [f"{len(values)} advantages for {width} tokens, {len(spans)} turns. Write one a token"]
    rewards = [*map(float, [] if None in (said := _first(row, REWARDS, list) or []) else said)]
    outcome = _first(row, ("reward", "score", "outcome", "rewards"), int | float)
    outcome = fsum(rewards) if rewards and (outcome is None or "token_level_rewards" in row) else outcome
    if len(rewards) == width != len(spans):
        paid, rewards = fsum(rewards), [fsum(rewards[start:end]) for start, end in spans]
        if not math.isclose(fsum(rewards), paid, abs_tol=_NEAR):
            wrong += ["a reward stands where the agent said nothing. Put it on the last token of its turn"]
    counts = {"turns": numbers, "credits": credit, "rewards": rewards if "turn_rewards" in row else None}
    rewards = rewards if len(rewards) == len(spans) else []
    if not all(map(math.isfinite, [*rewards, outcome or 0.0])):
        raise ValueError("a reward is not finite")
    group = str(next(one for one in names if one is not None))
    episode = group, f"line {line}" if repeat is None else repeat
    made = Row(line, group, episode, ids, mask, advantages, [], wrong)
    if odd := [f"{len(own)} {name}" for name, own in counts.items() if own and len(own) != len(spans)]:
        wrong += [f"{' and '.join(odd)}, but {len(spans)} runs of trained tokens: a turn is missing, or what stands between turns is trained. Mask that"]  # fmt: skip
        numbers = []
    for place, number in enumerate(numbers):
        first: float = next((one for one in advantages[slice(*spans[place])] if one), 0.0)
        known = credit[place] if credit else None, rewards[place] if rewards else None
        made.turns.append(Turn(line, int(number), spans[place], first, *known, outcome, credit is not None))
    return made


def _unmasked(advantages: list[float], places: list[int]) -> list[float]:
    """Without what an estimator left on all others' tokens (verl's GAE) or on all between two turns (its ReMax): the loss masks that."""
    gaps = [slice(*both) for both in zip(places[::2], places[1::2], strict=True)]
    whole = all(all(advantages[gap]) for gap in gaps) and advantages[-1:] != advantages[: places[-2]][-1:]
    for gap in gaps if whole and len(gaps) > 1 else gaps[1:-1]:
        if all(advantages[gap]):
            advantages[gap] = [0.0] * len(advantages[gap])
    return advantages


def _of_nodes(trace: Mapping[str, Json], wrong: list[str]) -> dict[str, Json]:
    """A trace of verifiers, each message a node with its tokens, in the columns of a row; None is no advantage, and not trained."""
    row: dict[str, Json] = {name: [] for name in "completion_ids env_mask advantages turn_spans turn_indexes".split()}  # fmt: skip
    info, nodes = trace.get("info") or {}, trace["nodes"]
    known = any(node.get("advantages") for node in nodes)
    turns = [at for at, one in enumerate(nodes) if one.get("sampled", (one.get("message") or {}).get("role") == "assistant")]  # fmt: skip
    for number, node in enumerate(nodes):
        ids, mask = node.get("token_ids") or [], [*map(int, node.get("mask") or ())]
        start, given = len(row["env_mask"]), node.get("advantages")
        if len(mask) != len(ids) or (given is not None and len(given) != sum(mask)):
            counts = f"{len(ids)} tokens, {len(mask)} entries of the mask, {len(given or ())} advantages"
            wrong += [f"node {number}: {counts}. Write one advantage for each token whose mask is true"]
        if number in turns and known and given is None:
            mask = [0] * len(mask)
        elif number in turns and any(mask):
            row["turn_spans"] += [(start + mask.index(1), start + len(mask))]
            row["turn_indexes"] += [number]
        values = iter(given or ())
        row["advantages"] += [float(next(values, 0.0)) if own else 0.0 for own in mask]
        row["completion_ids"] += ids
        row["env_mask"] += mask
    told = {"turn_rewards": info.get("turn_rewards"), "credit": (info.get("turn_credit") or {}).get("credit")}
    for name, values in told.items():
        if values and len(values) == len(turns):
            row[name] = [values[turns.index(number)] for number in row["turn_indexes"]]
    paid = [one["score"] * one.get("weight", 1.0) for one in (trace.get("rewards") or {}).values() if one]
    return row | {"reward": fsum(paid) if paid else None} | ({} if known else {"advantages": []})


def findings_of(
    rows: Sequence[Row],
    claim: Claim = "auto",
    *,
    gamma: float = 1.0,
    ends: Sequence[int] = (),
    special: Collection[int] = (),
    said: Said | None = None,
) -> list[tuple[int, str]]:
    """Everything that is wrong with rows: line, and a sentence that says what, where and how to repair it.

    `claim` and `gamma` are flags of `credit check`; `ends` and `special` ids that end a turn, and that no agent begins with;
    `said` the trajectories that rows are of, by task and repeat.
    """
    uneven, long, seen = list[tuple[int, str]](), 0, defaultdict[Hashable, set[int]](set)
    spotty = False  # as verl's optimal token baseline is: 0 where it is the return itself
    for row in rows:
        seen[row.episode] |= {turn.number for turn in row.turns} or {-1}
        for turn in row.turns:
            values = [value for value in row.advantages[slice(*turn.span)] if value]
            long += len(values) > 1
            spotty |= 0 < len(values) < turn.span[1] - turn.span[0]
            if values and max(values) - min(values) > _NEAR * max(map(abs, values)):
                uneven += [turn.says("its tokens have several advantages. Spread its own over the whole turn")]  # fmt: skip
    if by_token := claim == "auto" and 2 * len(uneven) > long:  # a value for each token, as GAE gives
        claim = "other"
    found = [(row.line, text) for row in rows for text in row.wrong]
    found += [(row.line, text) for row in rows for text in _of_row(row, ends, special, said, by_token)]
    found += uneven if claim != "other" else []
    for row in {row.episode: row for row in rows if said and row.episode in said}.values():
        spoken = [one for one in (said or {})[row.episode].dialogue_history if one.role == "assistant"]
        if (lost := {*range(len(spoken))} - seen[row.episode]) and -1 not in seen[row.episode]:
            found += [(row.line, f"turn {min(lost)} of the trajectory file is in no row. Train it, too")]
    groups = defaultdict[str, dict[Hashable, list[Turn]]](lambda: defaultdict(list))
    for row in rows:
        if row.turns and row.advantages and all(map(math.isfinite, row.advantages)):
            groups[row.group][row.episode] += row.turns
    every = [_paid(group.values()) for group in groups.values()]
    for group in every:
        unpaid = [] if by_token and spotty else [*_lost(group, gamma, by_token)]
        found += unpaid or _disagrees(group, claim, gamma)
    if claim in {"auto", "outcome"} and every and all(map(_constant, every)) and not every[0][0][0].credited:
        found += _counted(every)
    found += _twice(every) if claim != "other" else []
    return sorted(found, key=lambda one: one[0])


def _paid(episodes: Iterable[list[Turn]]) -> list[list[Turn]]:
    """Turns in their order, and the outcome where a turn is a row: all say it, or each its own reward, and the last or their sum counts."""
    episodes = [sorted(own, key=lambda turn: turn.number) for own in episodes]
    rows = [[*{turn.line: turn.outcome for turn in own}.values()] for own in episodes]
    if any(None in own for own in rows):
        return episodes
    values = [max((turn.advantage for turn in own), key=abs) for own in episodes]
    ways = [own[-1] or 0.0 for own in rows], [fsum(one or 0.0 for one in own) for own in rows]
    paid = min(ways, key=lambda paid: len(_unfit(paid, values)))
    return [[turn._replace(outcome=one) for turn in own] for own, one in zip(episodes, paid, strict=True)]


def _of_row(row: Row, ends: Sequence[int], special: Collection[int], said: Said | None, by_token: bool) -> Iterator[str]:  # fmt: skip
    """Whether what is trained is what the agent said, and advantages are on all of it and on nothing else."""
    if not row.turns and row.wrong:
        return
    inside = {at for turn in row.turns for at in range(*turn.span)}
    if outside := [at for at, own in enumerate(row.mask) if own and at not in inside]:
        yield f"token {outside[0]}: {len(outside)} tokens are trained that belong to no turn. Mask what the agent did not say"
    if odd := [at for at, value in enumerate(row.advantages) if not math.isfinite(value)]:
        yield f"token {odd[0]}: the advantage is no number. Mask the turn, and write 0"
        return
    if outside := [at for at, value in enumerate(row.advantages) if value and at not in inside]:
        yield f"token {outside[0]}: {len(outside)} advantages stand where the agent said nothing. Spread each turn's over its own tokens, not over another's mask"
    episode = None if said is None else said.get(row.episode)
    if said is not None and episode is None:
        yield "the trajectory file has no such episode. Name the file that the rows were made of"
    spoken = [] if episode is None else [one for one in episode.dialogue_history if one.role == "assistant"]
    for turn in row.turns:
        where, (start, end), number = f"turn {turn.number}", turn.span, turn.number
        ids, values = row.ids[start:end], row.advantages[start:end]
        if lost := row.mask[start:end].count(0):
            yield f"{where}: {lost} of its {end - start} tokens are not trained. Set the mask to 1 on the whole turn"
        if any(values) and (lost := values.count(0.0)) and not by_token:
            yield f"{where}: {lost} of its {end - start} tokens have lost their advantage (0). Spread it over the whole turn"
        if behind := [at for at in range(len(ids) - len(ends)) if ends and ids[at : at + len(ends)] == [*ends]]:  # fmt: skip
            yield f"{where}: tokens behind its end (token {start + behind[0]}) are trained. Mask what the template writes between turns"
        if ids and ids[0] in special and ids != [*ends]:
            yield f"{where}: it begins with the template's token {ids[0]}. Mask that"
        known = getattr(spoken[number], "token_ids", None) if number < len(spoken) else None
        if known and [*known] != ids:
            yield f"{where}: its tokens are not those of the trajectory file: another policy sampled them, or the text was tokenised again. Write the recorded token_ids"


def _lost(episodes: Episodes, gamma: float, by_token: bool) -> Iterator[tuple[int, str]]:
    """Turns that were sampled and have no advantage, although others of their episode have one, and nothing says why."""
    steps = [Steps(tuple(turn.reward or 0.0 for turn in own), ()) for own in episodes]
    returns = [returns_to_go(own.rewards, gamma) for own in steps]
    there = mt_grpo_biased([Steps(tuple(own), ()) for own in returns], 0.0)  # less the mean of those there
    dues = _flat(mt_grpo(steps if len(steps) > 1 else [*steps, Steps((), ())], gamma))
    outcomes = [turn.outcome or 0.0 for own in episodes for turn in own]
    ways = outcomes, _flat(own.rewards for own in steps), _flat(returns), _flat(there), dues
    ys = _flat(_values(episodes))
    kept = [at for at, y in enumerate(ys) if y]
    lines = [x for x in ways if len(kept) > 2 and not _off([x[at] for at in kept], [ys[at] for at in kept])]
    places = count()
    for own in episodes:
        for number, (turn, place) in enumerate(zip(own, places, strict=False)):
            if turn.advantage or turn.credited or not any(one.advantage for one in own):
                continue
            some = [*kept, place]  # with its 0 they are on no line any more, whatever may explain them
            odd = lines and all(_off([xs[at] for at in some], [ys[at] for at in some]) for xs in lines)
            later = any(one.advantage or one.reward for one in own[number:])
            if later if by_token else turn.reward is None or odd:
                yield turn.says("it has no advantage (0), other turns of its episode have one. Give every sampled turn its own; where 0 is right, write a column `credit`")  # fmt: skip


def _disagrees(episodes: Episodes, claim: Claim, gamma: float) -> Iterator[tuple[int, str]]:
    """Where the advantages of a group are not what the claim says of credit, outcomes or returns."""
    turns, constant = [turn for own in episodes for turn in own], _constant(episodes)
    paid = all(turn.reward is not None for turn in turns)
    if claim == "auto":
        claim = "credit" if turns[0].credited else "outcome" if constant else "turns" if paid else "other"
    if claim == "credit":
        known = [turn for turn in turns if turn.credit is not None]
        for at in _off([turn.credit or 0.0 for turn in known], [turn.advantage for turn in known]):
            both = f"the advantage {known[at].advantage:.4g} is not its credit {known[at].credit:.4g}"
            yield known[at].says(f"{both} less the group's baseline. Deal each turn its own")
        for turn in turns:
            if turn.credit is None and turn.advantage:
                yield turn.says(f"no credit, but the advantage {turn.advantage:.4g}. Write 0, and mask it")
    elif claim == "outcome" and not constant:
        (turn, *_) = next(own for own in episodes if not _constant([own]))
        yield turn.says("its episode has several advantages. An outcome's is the same for every turn")
    elif claim == "outcome":
        known = [own[0] for own in episodes if own[0].outcome is not None]
        for at in _unfit([one.outcome or 0.0 for one in known], [one.advantage for one in known]):
            both = f"the advantage {known[at].advantage:.4g} does not fit the outcome {known[at].outcome:.4g}"
            yield known[at].says(f"{both}, beside the others of its group. Deal each episode its own; where it has several rewards (GDPO) pass --advantages other")  # fmt: skip
    elif claim == "turns" and paid:
        yield from _by_turns(episodes, [[turn.reward or 0.0 for turn in own] for own in episodes], gamma)


def _by_turns(episodes: Episodes, rewards: list[list[float]], gamma: float) -> Iterator[tuple[int, str]]:
    """Whether advantages are returns from the turn on less what all repeats have in common, or rewards less a baseline."""
    values, returns = _values(episodes), [returns_to_go(own, gamma) for own in rewards]
    steps = [Steps(tuple(own), ()) for own in rewards]
    if not all(_off(_flat(own), _flat(values)) for own in (rewards, mt_grpo(steps, gamma))):
        return
    known = len({*map(len, episodes)}) > 1 and not _off(_flat(mt_grpo_biased(steps, gamma)), _flat(values))
    why = "each turn's reward less the mean of those who got there, summed up" if known else "equal returns have different advantages"  # fmt: skip
    for number in range(max(map(len, episodes))):
        there = [at for at, own in enumerate(episodes) if number < len(own)]
        off = _off([returns[at][number] for at in there], [values[at][number] for at in there])
        if off or known:
            turn = episodes[there[off[0] if off else 0]][number]
            yield turn.says(f"the baseline depends on how long the episode goes on ({why}), so that stopping is paid or punished. Take the return from the turn on less its mean over all repeats, 0 for those that have ended (mt_grpo), and pass its --gamma; where it depends on the state (GiGPO, a critic) pass --advantages other")  # fmt: skip
            return


def _values(episodes: Episodes) -> list[list[float]]:
    return [[turn.advantage for turn in own] for own in episodes]


def _constant(episodes: Episodes) -> bool:
    """Whether all turns of an episode have one advantage."""
    return all(max(values) - min(values) < _NEAR for values in _values(episodes))


def _flat(parts: Iterable[Sequence[float]]) -> list[float]:
    return [value for part in parts for value in part]


def _counting(episodes: Episodes, by: str) -> list[float]:
    """The advantages of turns, once each, or once for each token or each row."""
    turns = [turn for own in episodes for turn in own]
    turns = [*{turn.line: turn for turn in turns}.values()] if by == "rows" else turns
    counts = [turn.span[1] - turn.span[0] if by == "tokens" else 1 for turn in turns]
    return _flat([turn.advantage] * count for turn, count in zip(turns, counts, strict=True))


def _off(xs: Sequence[float], ys: Sequence[float]) -> list[int]:
    """Places of values that are on no line with the others on which y rises with x."""
    if len(xs) < 2:
        return []
    pairs = [*zip(xs, ys, strict=True)]
    (x, y), (far, top) = min(pairs), max(pairs)
    if far - x > _NEAR and top <= y:
        return [pairs.index((far, top))]
    size = max(map(abs, xs))  # they may have been of 32 bits
    slope = (top - y) / (far - x) if top > y and far - x > 1e-12 * size else 0.0
    room = _NEAR * max(1.0, *map(abs, ys)) + 2e-7 * slope * size
    return [at for at, (a, b) in enumerate(pairs) if abs(y + slope * (a - x) - b) > room]


def _unfit(paid: Sequence[float], values: Sequence[float]) -> list[int]:
    """Episodes whose advantage does not fit the outcome; none where only the best has one, as pass@k pays."""
    others = sorted(zip(paid, values, strict=True), key=lambda both: both[0])[:-1]
    return _off(paid, values) if any(value for _, value in others) else []


def _white(xs: Sequence[float]) -> bool:
    """Whether their mean is 0, their deviation 1 (verl divides by one less than their number, OpenRLHF by all)."""
    return len(xs) > 1 and abs(fmean(xs)) < _NEAR > min(abs(pstdev(xs) - 1), abs(stdev(xs) - 1))


def _counted(groups: Sequence[Episodes]) -> Iterator[tuple[int, str]]:
    """Outcomes less a mean in which an episode counts as often as it has turns, tokens or rows."""
    room = _NEAR * max(abs(value) for group in groups for value in _flat(_values(group)))
    own = [group for group in groups if len(group) > 1 and any(_flat(_values(group)))]
    means = [fmean(map(fmean, _values(group))) for group in own]
    if not own or max(map(abs, means)) <= room or (len(own) == 1 and _white(_counting(own[0], "tokens"))):
        return  # REINFORCE++ normalises the tokens of all rows, here of one group
    for by in ("turns", "rows", "tokens"):
        counted = [_counting(group, by) for group in own]
        if all(abs(fmean(values)) <= room for values in counted):
            for group, mean in zip(own, means, strict=True):
                yield group[0][0].says(f"the baseline of its group counts {by}, not episodes: the mean over its {len(group)} episodes is {mean:.4g}, over their {by} 0, so that long episodes count more. Count each episode once; where that is meant (OPO) pass --advantages other")  # fmt: skip
            return


def _twice(groups: Sequence[Episodes]) -> Iterator[tuple[int, str]]:
    """Advantages that were normalised within groups, and then again over all turns or tokens."""
    some = [group for group in groups if len(group) > 1]  # else GRPO may leave the outcome itself
    levels = {"turns": [_flat(_values(group)) for group in some]}
    if all(map(_constant, groups)):
        paid = [[own[0].outcome for own in group if own[0].outcome is not None] for group in groups]
        less = [value - fmean(own) for own in paid for value in own]
        levels["episodes"] = [[*map(fmean, _values(group))] for group in some]
        every = [own[0].advantage for group in groups for own in group]
        # REINFORCE++, and its form with a group's mean as the baseline, normalise once
        if len(less) == len(every) and not (_off(_flat(paid), every) and _off(less, every)):
            return
    for by in ("turns", "tokens") if len(groups) > 1 else ():
        pool = _flat(_counting(group, by) for group in groups)
        if not _white(pool):
            continue
        for level, values in levels.items():
            means = [fmean(own) for own in values]
            wide = [own for own in values if max(own) - min(own) > _NEAR]
            odd = all(abs(pstdev(own) - 1) > 0.01 < abs(stdev(own) - 1) for own in wide)
            spreads = [[by(own) for own in wide] for by in (pstdev, stdev) if len(wide) > 1]
            alike = any(max(own) - min(own) < 1e-3 for own in spreads)
            if alike and max(means) - min(means) < _NEAR and (odd or abs(means[0]) > 10 * _NEAR):
                yield groups[0][0][0].says(f"advantages are normalised twice: over the {level} of each group (their means are all {means[0]:.4g}), then over the {by} of all rows (mean 0, deviation 1). Do one of them; where both are meant (GDPO) pass --advantages other")  # fmt: skip
                return
