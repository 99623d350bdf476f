"""Played states with a teacher's thoughts: the records of a world of labels.

A player that is mostly random gets into all kinds of states; the teacher says of each what led there and what
would be best now. What is recorded as action is what the player did.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sweet_rl.chat.reflect_format import split_prompt
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.prompts import fill
from sweet_rl.sft_data.jobs import Done, Job, JobFile
from sweet_rl.sft_data.teachers import Asked, Teacher
from sweet_rl.types import Failure, Json, Message, derive_seed

_ENOUGH_TRIED: Final = 64


@dataclass(frozen=True, slots=True)
class Moment:
    """One state of a played episode.

    `text` is its whole prompt, `action` the label that the player chose, `best` the label that the oracle
    would have chosen (None where it knows none). `known` is what the embedded teacher says; `hint` what a
    model is given besides and must not repeat, "" for nothing. `extra` goes into the record.
    """

    text: str
    action: str
    best: str | None
    known: Callable[[random.Random], str]
    hint: str
    extra: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Request:
    """How a model is asked about a moment.

    `system` is its role; `template` is put behind the state, with {SENTENCES} and, where there are hints,
    {SPOILER}; `head` is what begins the list of actions, which is not shown.
    """

    system: str
    template: str
    head: str


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """What decides about the records.

    `play` plays the episode of a seed from beginning to end; `request` asks about each of its moments;
    `reflect` is False for records without reflections.
    """

    play: Callable[[int], Sequence[Moment]]
    request: Request
    seed: int
    reflect: bool = True


async def collect(
    plan: RecordPlan,
    teacher: Teacher,
    jobs: JobFile,
    *,
    num_records: int,
    at_once: int,
    on_record: Callable[[int], object] = lambda _: None,
) -> list[Json]:
    """Play episodes until there are so many records; return the first ones, in the episodes' order.

    Episodes are numbered and each has its own seed, so the result does not depend on what was done at once
    or before an interruption. An episode of which nothing could be recorded is left out.
    """
    failed: set[str] = set()

    async def work(job: Job[int]) -> Done:
        done = await _episode(job, plan, teacher)
        if done.result is None:
            failed.add(job.key)
        return done

    episodes = 0
    while True:
        in_order = [jobs.results.get(f"episode {number}") or [] for number in range(episodes)]
        records = [record for episode in in_order for record in episode]
        on_record(min(len(records), num_records))
        if len(records) >= num_records:
            return records[:num_records]
        _check_progress(episodes, len(failed), records)
        wave = range(episodes, episodes + max(1, at_once))
        episodes = wave.stop
        missing = jobs.missing({f"episode {number}": number for number in wave})
        await jobs.do(missing, work, at_once=at_once)


def _check_progress(episodes: int, failed: int, records: Sequence[Json]) -> None:
    """A teacher that never gives anything to record must not be asked for ever."""
    if episodes >= _ENOUGH_TRIED and not records:
        raise UsageError(
            f"{episodes} episodes gave no record ({failed} failed). The journal beside the output holds "
            "every reply that was of no use."
        )


async def _episode(job: Job[int], plan: RecordPlan, teacher: Teacher) -> Done:
    """Play one episode and ask about all its states at once; a state without an answer gives no record."""
    own_seed = derive_seed(plan.seed, "episode", job.item)
    try:
        moments = await asyncio.to_thread(plan.play, own_seed)
    except EpisodeError as error:
        return Done(None, (error.failure,))

    async def ask(step: int, moment: Moment) -> Json | Failure:
        reflection = ""
        if plan.reflect:
            seed = derive_seed(own_seed, "reflection", step, job.attempt)
            asked = Asked(_messages(plan.request, moment, step), moment.known, seed)
            try:
                reflection = (await teacher.say(asked)).strip()
            except RequestFailed as error:
                return replace(error.failure, turn=step)
        return {
            "state": moment.text,
            "reflection": reflection,
            "action": moment.action,
            "reason": "",
            "model": teacher.name,
            "best_action": moment.best,
            **moment.extra,
        }

    replies = await asyncio.gather(*(ask(step, moment) for step, moment in enumerate(moments)))
    failures = tuple(one for one in replies if isinstance(one, Failure))
    records = [one for one in replies if not isinstance(one, Failure)]
    return Done(records or None, failures)


def _messages(request: Request, moment: Moment, step: int) -> list[Message]:
    sentences = "one sentence" if step == 0 else "two sentences"
    values = {"SENTENCES": sentences} | ({"SPOILER": moment.hint} if moment.hint else {})
    before = split_prompt(moment.text, request.head).before
    text = f"{before}\n\n{fill(request.template, **values)}"
    return [Message("system", request.system), Message("user", text)]
