"""The pipe to a browser, with nobody at its other end but the test."""

import asyncio
import json
import os

import pytest

from sweet_rl.browsers.browser import CLOSED, BrowserGone, CommandFailed, Wire


def run(work):
    """Do `work` with a wire, what it wrote, and a way to write to it."""

    async def main():
        (theirs, ours), (mine, yours) = os.pipe(), os.pipe()
        wire = Wire()
        await wire.connect(os.fdopen(mine, "rb", 0), os.fdopen(ours, "wb", 0))
        try:
            return await work(wire, lambda: os.read(theirs, 65_536), yours)
        finally:
            wire.close()
            os.close(theirs)

    return asyncio.run(main())


def test_answers_find_their_commands_and_events_their_session():
    async def work(wire, sent, end):
        events = []
        wire.handlers[""] = lambda *event: events.append(event)
        wire.handlers["s"] = lambda *event: events.append(("s", *event))
        first, second = wire.send("A.do", x=1), wire.send("B.do", "s")
        await asyncio.sleep(0)
        assert [json.loads(part) for part in sent().split(b"\0")[:-1]] == [
            {"id": 1, "method": "A.do", "params": {"x": 1}},
            {"id": 2, "method": "B.do", "params": {}, "sessionId": "s"},
        ]
        answers = [
            {"method": "E", "params": {"n": 1}},
            {"id": 2, "result": {"b": 2}, "sessionId": "s"},
            {"method": "F", "sessionId": "s"},
            {"method": "G", "sessionId": "unknown"},
            {"type": "success", "id": 1, "result": {"a": "é" * 50_000}},
        ]
        data = b"".join(json.dumps(answer).encode() + b"\0" for answer in answers)
        for start in range(0, len(data), 30_001):  # messages come in pieces
            os.write(end, data[start : start + 30_001])
            await asyncio.sleep(0.001)
        os.close(end)
        assert (await second, await first) == ({"b": 2}, {"a": "é" * 50_000})
        return events

    assert run(work)[:2] == [("E", {"n": 1}), ("s", "F", {})]


@pytest.mark.parametrize(
    "error",
    [{"error": {"code": 1, "message": "no such frame"}}, {"error": "bad", "message": "no such frame"}],
)
def test_a_refused_command_says_why(error):
    async def work(wire, sent, end):
        answer = wire.send("A.do")
        os.write(end, json.dumps({"id": 1, **error}).encode() + b"\0")
        os.close(end)
        with pytest.raises(CommandFailed, match="no such frame"):
            await answer

    run(work)


def test_the_end_of_the_browser_ends_all_waiting():
    async def work(wire, sent, end):
        events = []
        wire.handlers["s"] = lambda method, _: events.append(method)
        answer = wire.send("A.do")
        os.close(end)
        with pytest.raises(BrowserGone):
            await answer
        assert events == [CLOSED]  # also who waits for an event, not for an answer
        with pytest.raises(BrowserGone):
            await wire.send("B.do")

    run(work)
