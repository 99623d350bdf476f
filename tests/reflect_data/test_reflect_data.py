"""Teachers, what a model that plays is sent and taken for, and work on disk that goes on."""

import asyncio
import json

import pytest

from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy
from sweet_rl.reflect_data.jobs import Done, JobFile
from sweet_rl.reflect_data.teachers import (
    NO_EXPERT,
    Asked,
    EmbeddedTeacher,
    ModelTeacher,
    extract_action,
    play,
)
from sweet_rl.types import Failure, Message
from sweet_rl.worlds.dangerous_taxi import WORLD
from sweet_rl.worlds.dangerous_taxi.game import START_STATES, TaxiGame, plan
from tests.reflect_data.serving import talking


def asked(text="Which label?", seed=7):
    messages = [Message("system", "s"), Message("user", text)]
    return Asked(messages, lambda draws: f"known {draws.random()}", seed)


def say(url, *questions, replies=None):
    async def work():
        client = OpenAIClient([url], retry=RetryPolicy(attempts=2, timeout_s=5, first_wait_s=0.01))
        teacher = ModelTeacher(client, "m", replies=replies)
        try:
            return [await teacher.say(question) for question in questions]
        finally:
            await teacher.close()

    return asyncio.run(work())


def test_the_embedded_teacher_says_what_is_known_by_the_questions_seed():
    one, same, other = (asyncio.run(EmbeddedTeacher().say(asked(seed=seed))) for seed in (1, 1, 2))
    assert one == same != other
    assert one.startswith("known ")


def test_a_model_is_asked_over_http_and_never_told_what_is_known(tmp_path):
    """What was asked before is not asked again; another seed is another request."""
    heard, replies = [], tmp_path / "r.jsonl"

    def speaker(prompt):
        heard.append(prompt)
        return f"reply {len(heard)}"

    with talking(speaker) as url:
        said = say(url, asked("a"), asked("b"), asked("a"), replies=replies)
        again = say(url, asked("b"), asked("a", seed=8), replies=replies)
    assert heard == ["a", "b", "a"]
    assert said == ["reply 1", "reply 2", "reply 1"]
    assert again == ["reply 2", "reply 3"]
    rows = [json.loads(line) for line in replies.read_text().splitlines()]
    assert [row["reply"] for row in rows] == ["reply 1", "reply 2", "reply 3"]


def test_replies_that_are_none(tmp_path):
    def speaker(prompt):
        if prompt == "bad":
            raise ValueError("no")
        return "fine" if prompt == "good" else prompt

    with talking(speaker) as url:
        for blank in ("", " \n"):
            with pytest.raises(RequestFailed) as caught:
                say(url, asked(blank), replies=tmp_path / "r.jsonl")
            assert caught.value.failure.kind == "empty_reply"
            assert not (tmp_path / "r.jsonl").exists()
        with pytest.raises(RequestFailed) as caught:  # a refused request spoils one question
            say(url, asked("good"), asked("bad"))
        assert (caught.value.failure.kind, caught.value.failure.status) == ("bad_request", 400)
    with pytest.raises(ServiceError, match="No server answers"):  # a dead server is for a person
        say(url, asked())


LABELS = [str(label) for label in range(6)]


def test_the_label_that_a_reply_names(shared):
    golden = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["extract_action"]
    assert {reply: extract_action(reply, LABELS, compat="published") for reply in golden} == golden
    for reply, label in {
        "Action: 3": "3", "I think action 2 is best": "2", "57 would be too much, so 4": "4", "Action 12": None,
        "take 57": None, "go south": None, "": None,
    }.items():  # fmt: skip
        assert extract_action(reply, LABELS) == label, reply


class Listening(EmbeddedTeacher):
    name = "m"

    def __init__(self, *replies, broken=""):
        self.replies, self.broken, self.asked = list(replies), broken, []

    async def say(self, asked):
        self.asked.append(asked.messages)
        if self.broken:
            raise RequestFailed(Failure("server_error", self.broken, 500))
        reply = self.replies.pop(0) if self.replies else "Action: 4"
        if not reply:
            raise RequestFailed(Failure("empty_reply", "''"))
        return reply


def run(teacher, expert=None, **flags):
    game = TaxiGame(max_turns=15)
    game.begin(START_STATES[7], "full")
    return game, asyncio.run(play(game, expert or WORLD.learning.expert(game), teacher, seed=0, **flags))


def test_a_player_thinks_first_and_forgets_what_was_before():
    game, played = run(EmbeddedTeacher())
    assert played.steps == len(plan(START_STATES[7]))
    assert played.cost < game.success_threshold
    assert not played.failures
    teacher = Listening("I see a taxi.", "Action: 0", "Still a taxi.")
    run(teacher, NO_EXPERT)
    think, act, again, _ = (call[-1].content for call in teacher.asked[:4])
    assert [len(call) for call in teacher.asked] == [2] * len(teacher.asked)
    asked_for = ["Action 0: move south" in text for text in (think, act)]
    thought = ["I see a taxi." in text for text in (think, act, again)]
    assert (asked_for, thought) == ([False, True], [False, True, False])
    _, one = run(Listening(), NO_EXPERT, react=False)
    assert one.steps == 1


def test_a_reply_without_an_action_costs_a_step_and_is_kept():
    _, played = run(Listening("thought", "I would rather not"), NO_EXPERT)
    assert played.failures == [Failure("malformed_reply", "I would rather not", turn=0)]
    assert played.steps == 2
    assert played.cost == pytest.approx(0.05 + 0.5)
    _, published = run(Listening("thought", "I would rather not"), NO_EXPERT, compat="published")
    assert published.failures == played.failures
    _, played = run(Listening("thought", "pickup passenger"), NO_EXPERT)  # the command itself is an action
    assert (played.failures, played.steps) == ([], 1)


def test_a_silent_model_is_sent_the_state_again_and_without_a_service_nothing_is_said_about_it():
    teacher = Listening("", "", "thought", "Action: 4")
    _, played = run(teacher, NO_EXPERT)
    assert teacher.asked[0] == teacher.asked[1] == teacher.asked[2]
    assert [failure.kind for failure in played.failures] == ["empty_reply"] * 2
    assert played.steps == 1
    _, silent = run(Listening(*[""] * 6), NO_EXPERT)  # that is the model's own
    assert silent.moved.over
    with pytest.raises(RequestFailed, match="overloaded"):
        run(Listening(broken="overloaded"), NO_EXPERT)
    _, published = run(Listening(broken="overloaded"), NO_EXPERT, compat="published")
    assert published.moved.over


def do(path, items, work, settings=None, **flags):
    with JobFile(path, settings or {"seed": 0}, **flags) as jobs:
        asyncio.run(jobs.do(jobs.missing(items), work, at_once=3))
        return dict(jobs.results), dict(jobs.failures)


async def double(job):
    return Done(2 * job.item)


def test_finished_work_is_not_done_again(tmp_path):
    path, seen = tmp_path / "w.jsonl", []
    assert do(path, {"a": 1, "b": 2}, double) == ({"a": 2, "b": 4}, {})

    async def count(job):
        seen.append(job.key)
        return Done(0)

    results, _ = do(path, {"a": 1, "b": 2, "c": 3}, count)
    assert seen == ["c"]
    assert results == {"a": 2, "b": 4, "c": 0}
    path.write_bytes(path.read_bytes()[:-5])  # a torn line costs its piece of work only
    assert do(path, {"a": 1, "b": 2, "c": 3}, double)[0] == {"a": 2, "b": 4, "c": 6}


def test_what_failed_is_kept_with_its_raw_text_and_tried_again_as_another_attempt(tmp_path):
    path = tmp_path / "w.jsonl"

    async def fail_first(job):
        failures = (Failure("malformed_reply", "label? dunno"),)
        return Done(job.attempt) if job.attempt else Done(None, failures)

    assert do(path, {"a": 1}, fail_first) == ({}, {"malformed_reply": 1})
    row = json.loads(path.read_text().splitlines()[1])
    assert row["failures"] == [{"kind": "malformed_reply", "detail": "label? dunno", "attempts": 1}]
    assert do(path, {"a": 1}, fail_first) == ({"a": 1}, {})


def test_other_settings_and_other_files_are_refused_and_overwrite_begins_again(tmp_path):
    path = tmp_path / "w.jsonl"
    do(path, {"a": 1}, double)
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        do(path, {"a": 1}, double, {"seed": 1})
    assert do(path, {"a": 5}, double, {"seed": 1}, overwrite=True)[0] == {"a": 10}
    path.write_text('{"text": "x"}\n')
    with pytest.raises(DataError, match="not the journal"):
        JobFile(path, {})
