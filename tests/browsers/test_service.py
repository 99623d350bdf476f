"""The service without a browser: second tries, replacement, limits, the cache."""

import asyncio
import json
import os
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sweet_rl.browsers import RenderedPage, RenderFailed, RenderSettings, Viewport
from sweet_rl.browsers import service as service_module
from sweet_rl.browsers.browser import CLOSED, BrowserGone, CommandFailed, Wire, descendants
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.browsers.firefox import Firefox
from sweet_rl.browsers.page import Box, RenderFlags
from sweet_rl.browsers.service import RenderService
from sweet_rl.errors import UsageError
from sweet_rl.types import Failure

PAGE = RenderedPage(b"png", 3, 2, (Box("p", 0, 1.5, 2, 3, "x", (1, 2, 3), None, parent=0),), ("blocked x",))


class FakeBrowser:
    """Its pages are commands: "die" ends it, "hang" takes too long, "bad" has no picture."""

    def __init__(self, log):
        self.log, self.alive, self.megabytes, self.pages = log, True, 0, []
        log.append(self)

    async def render(self, html):
        self.pages.append(html)
        await asyncio.sleep(0.01)
        if html == "hang":
            raise TimeoutError
        if html == "bad":
            raise RenderFailed(Failure("empty", "nothing"))
        if html == "grow":
            self.megabytes = 100_000
            await asyncio.sleep(0.2)
        if html == "die":
            self.alive = False
        if not self.alive:
            raise BrowserGone("it has ended")
        return PAGE

    def memory_mb(self):
        return self.megabytes

    async def kill(self):
        self.alive = False


def run(work, *, browsers=1, **settings):
    """Do `work` with a service; gives its result and the browsers that were started."""
    started = []

    async def start():
        await asyncio.sleep(0.01)
        return FakeBrowser(started)

    async def main():
        async with RenderService(
            RenderSettings(browsers=browsers, **settings), start, program="true"
        ) as service:
            result = await work(service)
        assert not any(browser.alive for browser in started)
        return result

    return asyncio.run(main()), started


def pages(*htmls):
    async def work(service):
        return await asyncio.gather(*map(service.render, htmls), return_exceptions=True)

    return work


def test_a_page_whose_browser_dies_is_tried_once_more_alone():
    results, started = run(pages("die", "a", "b", "c"))
    assert isinstance(results[0], RenderFailed)
    assert results[0].failure.kind == "crash"
    assert results[0].failure.attempts == 2
    assert results[1:] == [PAGE] * 3  # its neighbours have their pictures
    assert [browser.pages for browser in started].count(["die"]) == 1  # the second try had no neighbour


@pytest.mark.parametrize(("html", "kind"), [("hang", "timeout"), ("bad", "empty"), ("é" * 30, "too_large")])
def test_a_page_without_a_picture_harms_nobody(html, kind):
    results, started = run(pages(html, "a"), max_page_bytes=50)
    assert results[0].failure.kind == kind
    assert results[1] == PAGE
    assert len(started) == 1


def test_what_is_given_to_a_browser():
    (failed,), started = run(pages("x" * 51), max_page_bytes=50)
    assert failed.failure.detail == "the page has 51 bytes; the limit is 50"
    assert started == []  # for a page that is too large
    results, started = run(pages("a\ud800b", "https://picsum.photos/3/4"))  # no Unicode; a random picture
    assert results == [PAGE] * 2
    assert sorted(started[0].pages) == ["a?b", "https://picsum.photos/id/48/3/4"]


def test_work_is_shared_among_browsers():
    _, started = run(pages(*map(str, range(8))), browsers=2)
    assert [len(browser.pages) for browser in started] == [4, 4]


def test_a_browser_that_grows_is_replaced_and_one_that_grows_too_large_killed(monkeypatch):
    monkeypatch.setattr("sweet_rl.browsers.service.WATCH_S", 0.01)
    (result, after), started = run(pages("grow", "a"))
    assert (result.failure.kind, after) == ("crash", PAGE)
    assert len(started) > 1

    async def work(service):
        await service.render("a")
        (browser,) = service._seats[0].running
        browser.megabytes = 3_000  # above the limit, below twice the limit
        await asyncio.sleep(0.1)
        return await service.render("b")

    assert [browser.pages for browser in run(work)[1]] == [["a"], ["b"]]


@pytest.fixture
def version(monkeypatch):
    monkeypatch.setattr(service_module, "_version_of", lambda _: "Browser 1")


def test_the_cache_gives_what_was_rendered(tmp_path, version):
    _, started = run(pages("a", "a", "b", "a"), cache=tmp_path)
    assert sorted(started[0].pages) == ["a", "b"]  # who came second waited for the first
    results, started = run(pages("a", "b"), cache=tmp_path)
    assert results == [PAGE, PAGE]
    assert started == []


def test_the_cache_knows_what_decides_about_a_picture(tmp_path, version):
    run(pages("a"), cache=tmp_path)
    for settings in ({"viewport": Viewport(100, 100)}, {"allow_scripts": True}, {"max_height": 9}):
        assert len(run(pages("a"), cache=tmp_path, **settings)[1]) == 1


def test_the_cache_keeps_no_failure_and_nothing_of_the_network(tmp_path, version):
    run(pages("bad", "hang"), cache=tmp_path)
    run(pages("a"), cache=tmp_path, network="allow")
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize("damage", [b"other", None, b""])
@pytest.mark.parametrize("suffix", [".png", ".json"])
def test_a_damaged_cache_is_no_harm(tmp_path, version, damage, suffix):
    run(pages("a"), cache=tmp_path)
    (path,) = tmp_path.rglob(f"*{suffix}")
    path.unlink() if damage is None else path.write_bytes(damage)
    results, started = run(pages("a"), cache=tmp_path)
    assert (results, len(started)) == ([PAGE], 1)
    assert run(pages("a"), cache=tmp_path)[1] == []


def test_the_cache_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert RenderFlags().rendering().cache == tmp_path / "sweet_rl" / "pages"


@pytest.mark.parametrize("kind", [Chromium, Firefox])
def test_no_browser_is_an_error_with_the_install_line(kind, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(Chromium, "places", ())
    with pytest.raises(UsageError, match=r"Install it: apt-get install \w+"):
        kind.find()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_process_that_ends_while_it_is_looked_at_is_no_error(monkeypatch):
    look = Path.iterdir

    def late(path):
        if str(child.pid) in path.parts:
            child.kill()
            child.wait()
        return look(path)

    with subprocess.Popen(["sleep", "60"]) as child:
        assert set(descendants(os.getpid())) >= {os.getpid(), child.pid}
        monkeypatch.setattr(Path, "iterdir", late)
        assert child.pid in descendants(os.getpid())
        assert not Path(f"/proc/{child.pid}").exists()


@asynccontextmanager
async def connected():
    """A wire, what it wrote, and a way to write to it."""
    (theirs, ours), (mine, yours) = os.pipe(), os.pipe()
    wire = Wire()
    await wire.connect(os.fdopen(mine, "rb", 0), os.fdopen(ours, "wb", 0))
    try:
        yield wire, lambda: os.read(theirs, 65_536), yours
    finally:
        wire.close()
        os.close(theirs)


async def test_answers_find_their_commands_and_events_their_session():
    events = []
    async with connected() as (wire, sent, end):
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
    assert events[:2] == [("E", {"n": 1}), ("s", "F", {})]


@pytest.mark.parametrize(
    "error",
    [{"error": {"code": 1, "message": "no such frame"}}, {"error": "bad", "message": "no such frame"}],
)
async def test_a_refused_command_says_why(error):
    async with connected() as (wire, _, end):
        answer = wire.send("A.do")
        os.write(end, json.dumps({"id": 1, **error}).encode() + b"\0")
        os.close(end)
        with pytest.raises(CommandFailed, match="no such frame"):
            await answer


async def test_the_end_of_the_browser_ends_all_waiting():
    async with connected() as (wire, _, end):
        events = []
        wire.handlers["s"] = lambda method, _: events.append(method)
        answer = wire.send("A.do")
        os.close(end)
        with pytest.raises(BrowserGone):
            await answer
        assert events == [CLOSED]  # also who waits for an event, not for an answer
        with pytest.raises(BrowserGone):
            await wire.send("B.do")
