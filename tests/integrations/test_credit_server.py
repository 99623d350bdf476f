"""Credit over HTTP: the same numbers as in this process, the digest in every answer, errors that say what to do."""

import asyncio
import json
import re

import aiohttp
import pytest

from sweet_rl.integrations.serve import credit_application, serve_credit
from sweet_rl.preferences.credit import View
from sweet_rl.serving import listening
from tests.integrations.credit import findings

MESSAGES = [{"role": "user", "content": "Write it."}, {"role": "assistant", "content": "What for?"}]


class Slow:
    """A critic that says the lengths of what it is given; a turn `wait` waits until it may go on."""

    def __init__(self):
        self.asked, self.go, self.begun = 0, asyncio.Event(), asyncio.Event()

    async def views(self, hidden, dialogues):
        self.asked += 1
        self.begun.set()
        if any(message.content == "wait" for one in dialogues for message in one):
            await self.go.wait()
        return [
            [View(advantage=float(len(told or "")))] * sum(one.role == "assistant" for one in dialogue)
            for told, dialogue in zip(hidden, dialogues, strict=True)
        ]


def asked(body, path="/credit", kind="application/json", method="POST"):
    async def main():
        app = credit_application(Slow(), {"critic": "sha256:1"})
        async with listening(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            data = body if isinstance(body, bytes) else json.dumps(body)
            url = f"http://127.0.0.1:{port}{path}"
            async with session.request(method, url, data=data, headers={"Content-Type": kind}) as reply:
                return reply.status, await reply.json()

    return asyncio.run(main())


def test_every_answer_says_what_it_was_computed_by():
    one, none = {"hidden": "abc", "messages": MESSAGES}, {"hidden": None, "messages": MESSAGES * 2}
    found = {"advantages": [[3.0], [0.0, 0.0]], "why": [[""], ["", ""]], "critic": "sha256:1"}
    assert asked({"dialogues": [one, none]}) == (200, found)
    assert (
        findings([{"dialogues": [one, none]} | found]) == []
    )  # a request beside its reply, for `credit check`
    assert asked({"dialogues": []})[1] == {"advantages": [], "why": [], "critic": "sha256:1"}
    assert asked({}, "/health", method="GET") == (200, {"status": "ok", "critic": "sha256:1"})


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "is not JSON"), ([], 400, "'dialogues' must be a list"),
        ({"dialogues": [{"hidden": None}]}, 400, r"dialogues\[0\].messages' must be a list"),
        ({"dialogues": [{"messages": []}]}, 400, r"dialogues\[0\].hidden' must be a text, or null"),
        ({"dialogues": [{"hidden": 3, "messages": []}]}, 400, "must be a text, or null"),
        ({"dialogues": [{"hidden": "", "messages": [{"role": "tool"}]}]}, 400, r"dialogues\[0\].messages\[0\]' has calls of tools"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(body, status, words):
    got, answer = asked(body)
    assert got == status
    assert re.search(words, answer["error"])


def test_other_paths_methods_and_types():
    assert (asked({}, "/else")[0], asked({}, method="PUT")[0]) == (404, 405)
    status, answer = asked({}, kind="text/plain")
    assert status == 415 and "must be application/json" in answer["error"]


async def test_a_client_that_goes_away_does_not_stop_the_critic():
    critic = Slow()
    app = credit_application(critic, {})
    async with listening(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:

        def post(hidden, messages):
            body = {"dialogues": [{"hidden": hidden, "messages": messages}]}
            return asyncio.create_task(session.post(f"http://127.0.0.1:{port}/credit", json=body))

        gone = post(None, [{"role": "user", "content": "wait"}])
        await critic.begun.wait()
        gone.cancel()
        other = post("a", MESSAGES)
        await asyncio.sleep(0.05)
        asked_meanwhile = critic.asked
        critic.go.set()
        async with await other as reply:
            answer = await reply.json()
    assert asked_meanwhile == 1  # one batch at a time
    assert answer["advantages"] == [[1.0]]


def test_the_command_gives_the_numbers_of_python(folder, critic, monkeypatch, capsys):
    found = {}

    async def served(app, host, port, *, on_ready):
        async with listening(app, host, port) as actual, aiohttp.ClientSession() as session:
            on_ready(actual)
            body = {"dialogues": [{"hidden": "7", "messages": MESSAGES}]}
            async with session.post(capsys.readouterr().out.split()[-1], json=body) as reply:
                found.update(await reply.json())

    monkeypatch.setattr("sweet_rl.serving.serve", served)
    serve_credit(str(folder / "critic"), reference_model=str(folder / "reference"), port=0)
    assert found.pop("advantages") == [[pytest.approx(critic.credit("7", MESSAGES)[0], abs=1e-5)]]
    assert found == {"why": [[""]]} | critic.facts
