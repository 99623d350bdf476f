"""Teachers: what a model is sent, what is kept, and what becomes of replies that are none."""

import asyncio
import json

import pytest

from sweet_rl.errors import ServiceError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy
from sweet_rl.reflect_data.teachers import Asked, EmbeddedTeacher, ModelTeacher
from sweet_rl.types import Message
from tests.reflect_data.serving import talking


def asked(text="Which label?", seed=7):
    return Asked(
        [Message("system", "s"), Message("user", text)], lambda draws: f"known {draws.random()}", seed
    )


def say(url, *questions, replies=None, attempts=2):
    async def work():
        client = OpenAIClient([url], retry=RetryPolicy(attempts=attempts, timeout_s=5, first_wait_s=0.01))
        teacher = ModelTeacher(client, "m", replies=replies)
        try:
            return [await teacher.say(question) for question in questions]
        finally:
            await teacher.close()

    return asyncio.run(work())


def test_the_embedded_teacher_says_what_is_known_by_the_questions_seed():
    teacher = EmbeddedTeacher()
    one, same, other = (asyncio.run(teacher.say(asked(seed=seed))) for seed in (1, 1, 2))
    assert one == same != other
    assert one.startswith("known ")


def test_a_model_is_asked_over_http_and_never_told_what_is_known(tmp_path):
    heard = []

    def speaker(prompt):
        heard.append(prompt)
        return f"reply {len(heard)}"

    with talking(speaker) as url:
        said = say(url, asked("a"), asked("b"), asked("a"), replies=tmp_path / "r.jsonl")
        again = say(url, asked("b"), asked("a", seed=8), replies=tmp_path / "r.jsonl")
    assert heard == [
        "a",
        "b",
        "a",
    ]  # what was asked before is not asked again, another seed is another request
    assert said == ["reply 1", "reply 2", "reply 1"]
    assert again == ["reply 2", "reply 3"]
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["reply"] for row in rows] == ["reply 1", "reply 2", "reply 3"]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_reply_is_a_failure_and_not_kept(tmp_path, blank):
    with talking(lambda _: blank) as url, pytest.raises(RequestFailed) as caught:
        say(url, asked(), replies=tmp_path / "r.jsonl")
    assert caught.value.failure.kind == "empty_reply"
    assert not (tmp_path / "r.jsonl").exists()


def test_a_refused_request_spoils_one_question():
    def speaker(prompt):
        if prompt == "bad":
            raise ValueError("no")
        return "fine"

    with talking(speaker) as url, pytest.raises(RequestFailed) as caught:
        say(url, asked("good"), asked("bad"))
    assert (caught.value.failure.kind, caught.value.failure.status) == ("bad_request", 400)


def test_a_dead_server_is_for_a_person():
    with talking(lambda _: "x") as url:
        pass
    with pytest.raises(ServiceError, match="No server answers"):
        say(url, asked())
