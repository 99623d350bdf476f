"""Pages in a real Chromium: one picture for one page, nothing of the network or of files, and no page harms another."""

import contextlib
import io
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from PIL import Image

from sweet_rl.browsers import RenderedPage, assets, browser, chromium
from sweet_rl.browsers.assets import asset_for, tailwind
from sweet_rl.errors import ServiceError
from tests.conftest import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
SHOP, MOVING, LEAVING, ARRIVING, HOSTILE, REACHING = (
    Path(__file__).with_name("pages").joinpath(f"{name}.html").read_text().removesuffix("\n")
    for name in ("shop", "moving", "leaving", "arriving", "hostile", "reaching")
)


def pixels(page):
    return Image.open(io.BytesIO(page.image)).convert("RGB")


def by_tag(page, tag):
    return next(box for box in page.boxes if box.tag == tag)


def test_what_a_page_looks_like(service):
    page = service.render(SHOP)
    assert (page.width, page.height, page.problems) == (1366, 768, ())
    image = pixels(page)
    assert image.size == (1366, 768)
    assert [box.tag for box in page.boxes] == ["body", "h1", "img", "p", "b", "input", "button"]
    body, heading, picture, words, bold, field, _ = page.boxes
    assert body.background == (243, 244, 246)
    assert (heading.text, heading.color, heading.background) == ("Shop", (255, 255, 255), (239, 68, 68))
    assert (heading.height, heading.font_size, heading.font_weight, heading.parent) == (64, 24, 700, 0)
    assert image.getpixel((1300, int(heading.y) + 5)) == (239, 68, 68)
    assert (picture.width, picture.height) == (300, 200)
    with Image.open(io.BytesIO(asset_for("https://picsum.photos/id/48/300/200").body)) as original:
        for at in ((10, 10), (150, 100), (290, 190)):
            assert image.getpixel((int(picture.x) + at[0], int(picture.y) + at[1])) == original.getpixel(at)
    assert (words.text, bold.text, bold.parent, field.text) == ("words more", "bold", 3, "Name")


def test_what_a_page_gets_of_tailwind_is_all_that_it_can_use(service, monkeypatch):
    page = service.render(SHOP)
    monkeypatch.setattr(assets, "tailwind_for", lambda _: tailwind())
    assert service.render(SHOP) == page


def test_one_page_is_one_picture(service, services):
    """On every run, whatever renders beside it, in whichever browser, whatever moves."""
    others = [f"<body>{'word ' * n}<img src=https://picsum.photos/{n * 40}/{n * 30}>" for n in range(1, 4)]
    shop, moving = service.render(SHOP), service.render(MOVING)
    assert service.render_all([MOVING, *others, SHOP, MOVING])[::4] == [moving, shop]
    time.sleep(0.3)
    assert service.render(MOVING) == moving
    with services() as another:
        assert another.render_all([SHOP, MOVING]) == [shop, moving]
    assert moving.height > 3000


def test_a_page_leaves_nothing_to_the_next_one_in_its_window(services):
    with services(browsers=1) as service:
        fresh = service.render(ARRIVING)
    with services(browsers=1) as service:
        for text in ("two", "three"):
            service.render(LEAVING.replace("TEXT", text))
            assert service.render(ARRIVING) == fresh
        seat = service.service._seats[0]

        async def elements_in_the_next_window():
            browser = await seat.ready()
            window = await browser._window()
            asked = {"expression": "document.querySelectorAll('body *').length", "returnByValue": True}
            return (await browser.wire.send("Runtime.evaluate", window.session, **asked))["result"]

        assert service.runner.run(elements_in_the_next_window())["value"] == 0


@pytest.mark.parametrize(
    ("html", "height", "problem"),
    [
        ("", 768, None),
        ("<html><body>half", 768, None),
        ("<HTML><BODY><P>UPPER</P></BODY></HTML>", 768, None),
        ("<html><body>a</body></html><html><body>b</body></html>", 768, None),
        ("no page at all \0 \ud800", 768, None),
        ("<style>p { color: ; } } @media {{{ p{</style><p style='width:-9;color:nocolor'>x</p>", 768, None),
        ("<html style='display:none'>gone", 768, None),
        ("<body style='height:0;overflow:hidden'>flat", 768, None),
        ("<body style='height:1000000000px'>high", 16_384, "cut at 16384 pixels"),
        ("<div style='width:9000000px'>wide</div>", 768, None),
        ("<div>" * 3_000, 768, None),
        ("<i>x</i> " * 4_000, None, "only the first 2000 elements have boxes"),
        ("<body style='margin:0'><div style='height:100vh'>a</div><div style='height:100vh'>b</div>", 1536, None),
        ("<frameset><frame src='http://a.example/'></frameset>", 768, "blocked http://a.example/"),
        ("<iframe src='http://page.invalid/'></iframe><iframe srcdoc='in'></iframe>", 768, "blocked http://page.invalid/"),
        ("<iframe src='file:///etc/passwd'></iframe><img src='file:///etc/passwd'>", 768, "blocked file:///etc/passwd"),
        ("<meta http-equiv=refresh content='0;url=file:///etc/passwd'>here", 768, None),
        ("<meta http-equiv=refresh content='0;url=http://169.254.169.254/latest'>here", 768, None),
        ("<meta http-equiv=refresh content='0;url=data:text/html,elsewhere'>here", 768, None),
        ("<object data='http://b.example/x'></object><embed src='file:///etc/passwd'>", 768, None),
        ("<script>for(;;);</script>never ran", 768, None),
    ],
)  # fmt: skip
def test_bad_pages_have_pictures(service, html, height, problem):
    page = service.render(html)
    assert page.width == 1366
    assert height is None or page.height == height
    assert pixels(page).size == (page.width, page.height)
    if problem is None:
        assert page.problems == ()
    else:
        assert [found for found in page.problems if found.startswith(problem)], page.problems
    assert not [box for box in page.boxes if "root:" in box.text or "elsewhere" in box.text]
    if "here" in html:
        assert page.boxes[0].text == "here"


def test_a_page_of_five_megabytes(service):
    page = service.render(f"<p title='{'word ' * 990_000}'>{'word ' * 5_000}")
    assert page.height > 768


@contextlib.contextmanager
def listener():
    """A port of this machine, TCP and UDP; `seen` holds what came."""
    tcp, seen = socket.create_server(("127.0.0.1", 0)), []
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(tcp.getsockname())
    done = threading.Event()

    def listen():
        while not done.is_set():
            for ready in select.select([tcp, udp], [], [], 0.05)[0]:
                if ready is udp:
                    seen.append(udp.recv(2_000))
                    continue
                connection, _ = tcp.accept()
                connection.settimeout(1)
                with connection, contextlib.suppress(OSError):
                    seen.append(connection.recv(2_000))
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield f"127.0.0.1:{tcp.getsockname()[1]}", seen
    finally:
        done.set()
        thread.join()
        tcp.close()
        udp.close()


@pytest.fixture
def near(monkeypatch):
    """Chromium itself keeps pages from the machine's own addresses; the listener is at one of them."""
    monkeypatch.setattr(chromium, "_OFF", (*chromium._OFF, "LocalNetworkAccessChecks"))


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("namespace", [True, False])
@pytest.mark.parametrize("scripts", [False, True])
def test_nothing_reaches_the_network(services, monkeypatch, namespace, scripts):
    """Each wall alone: without a namespace, the interception and the proxy that is none have to do."""
    if not namespace:
        monkeypatch.setattr(browser, "namespaces", lambda: ())
    elif not browser.namespaces():
        pytest.skip("this kernel gives no namespaces")
    with listener() as (host, seen), services(allow_scripts=scripts, page_timeout_s=20) as service:
        html = (REACHING + (HOSTILE if scripts else "")).replace("HOST", host)
        page = service.render(html)
        time.sleep(0.3)
        assert seen == []
        assert f"blocked http://{host}/img" in page.problems
        assert f"blocked http://{host}/import" in page.problems
        assert ("ran" in "".join(box.text for box in page.boxes)) is scripts
        assert not [box for box in page.boxes if "root:" in box.text]


@pytest.mark.usefixtures("near")
def test_with_the_network_allowed_the_listener_sees_pages(services):
    with listener() as (host, seen), services(network="allow") as service:
        page = service.render(REACHING.replace("HOST", host))
        assert page.image
    asked = {line.split()[1].decode() for line in seen if line}
    assert {"/img", "/css", "/import", "/iframe"} <= asked
    assert "/refresh" not in asked  # another page is refused all the same
    assert "/form" not in asked


def test_an_endless_script_ends_at_the_time_limit(scripted):
    started = time.monotonic()
    endless, short = "<body>a<script>for(;;);</script>", "<p>two<script>document.title='x'</script>"
    results = scripted.render_all([endless, "<p>one", short])
    assert results[0].failure.kind == "timeout"
    assert [page.boxes[-1].text for page in results[1:]] == ["one", "two"]
    assert time.monotonic() - started < 40
    assert isinstance(scripted.render("<p>after"), RenderedPage)


def test_a_browser_killed_in_the_middle(service):
    """Twice at work and once at rest: every page has its picture."""
    service.render("<p>warm")
    before = set(service.pids())

    def kill():
        for pid in before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    killer = threading.Timer(0.15, kill)
    killer.start()
    results = service.render_all([SHOP, MOVING, "<p>c"])
    killer.join()
    assert [type(result) for result in results] == [RenderedPage] * 3, results
    assert not before & set(service.pids())


def test_nothing_is_left_when_we_are_killed(tmp_path):
    code = """
import asyncio, sys
from sweet_rl.browsers import RenderSettings, open_renderer
from sweet_rl.browsers.browser import descendants
async def main():
    service = open_renderer(RenderSettings(browsers=1))
    await service.render("<p>x")
    (browser,) = service._seats[0].running
    print(*descendants(browser.process.pid), browser.home, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        *pids, home = parent.stdout.readline().split()
        parent.kill()
    deadline = time.monotonic() + 20
    while alive := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)
    browser._sweep()
    assert not Path(home).exists()


def _runs(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def test_a_browser_that_does_not_start_says_why(services, tmp_path, monkeypatch):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(chromium.Chromium, "find", lambda: str(broken))
    with services() as service, pytest.raises(ServiceError, match="no such library"):
        service.render("<p>x")
