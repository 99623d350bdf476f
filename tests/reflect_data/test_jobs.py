"""Work on disk: resumed, tried again, refused under other settings."""

import asyncio
import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.reflect_data.jobs import Done, JobFile
from sweet_rl.types import Failure


def do(path, items, work, settings=None, **flags):
    with JobFile(path, settings or {"seed": 0}, **flags) as jobs:
        asyncio.run(jobs.do(jobs.missing(items), work, at_once=3))
        return dict(jobs.results), dict(jobs.failures)


async def double(job):
    return Done(2 * job.item)


def test_finished_work_is_not_done_again(tmp_path):
    path = tmp_path / "w.jsonl"
    assert do(path, {"a": 1, "b": 2}, double) == ({"a": 2, "b": 4}, {})
    seen = []

    async def count(job):
        seen.append(job.key)
        return Done(0)

    results, _ = do(path, {"a": 1, "b": 2, "c": 3}, count)
    assert seen == ["c"]
    assert results == {"a": 2, "b": 4, "c": 0}


def test_what_failed_is_kept_with_its_raw_text_and_tried_again_as_another_attempt(tmp_path):
    path = tmp_path / "w.jsonl"

    async def fail_first(job):
        if job.attempt == 0:
            return Done(None, (Failure("malformed_reply", "label? dunno"),))
        return Done(job.attempt)

    assert do(path, {"a": 1}, fail_first) == ({}, {"malformed_reply": 1})
    row = json.loads(path.read_text().splitlines()[1])
    assert row["failures"] == [{"kind": "malformed_reply", "detail": "label? dunno", "attempts": 1}]
    assert do(path, {"a": 1}, fail_first) == ({"a": 1}, {})


def test_a_torn_line_costs_its_piece_of_work_only(tmp_path):
    path = tmp_path / "w.jsonl"
    do(path, {"a": 1, "b": 2}, double)
    path.write_bytes(path.read_bytes()[:-5])
    assert do(path, {"a": 1, "b": 2}, double)[0] == {"a": 2, "b": 4}


def test_other_settings_are_refused_and_overwrite_begins_again(tmp_path):
    path = tmp_path / "w.jsonl"
    do(path, {"a": 1}, double)
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        do(path, {"a": 1}, double, {"seed": 1})
    assert do(path, {"a": 5}, double, {"seed": 1}, overwrite=True)[0] == {"a": 10}


def test_another_file_is_not_taken_for_a_journal(tmp_path):
    path = tmp_path / "w.jsonl"
    path.write_text('{"text": "x"}\n')
    with pytest.raises(DataError, match="not the journal"):
        JobFile(path, {})
