"""The server: what it gives, to whom, and how it says that it cannot listen."""

import asyncio
import socket

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sweet_rl.errors import UsageError
from sweet_rl.serving import is_loopback, is_own_name
from sweet_rl.viewer.code import CodeContents
from sweet_rl.viewer.server import make_app, serve


def contents(trajectories):
    return CodeContents(trajectories, "sample")


def ask(trajectories, path, host="127.0.0.1", **headers):
    """Status, headers and body of one request to a server that listens on `host`."""

    async def request():
        async with TestClient(TestServer(make_app(contents(trajectories), host=host))) as client:
            response = await client.get(path, headers=headers)
            is_json = response.content_type == "application/json"
            return response.status, response.headers, await (response.json() if is_json else response.text())

    return asyncio.run(request())


def test_gives_the_index_and_each_row(trajectories):
    assert ask(trajectories, "/api/index")[2] == contents(trajectories).index()
    assert ask(trajectories, "/api/rows/8")[2] == contents(trajectories).row(8)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("THREE QUARTERS", [0]),
        ("summarise_levels", [1, 3, 5]),
        ("discount is still", [0]),
        ("nowhere to be found", []),
        ("%3C/script", [8]),
    ],
)
def test_search_finds_rows_whatever_the_case(trajectories, text, rows):
    assert ask(trajectories, f"/api/search?text={text}")[2] == rows


@pytest.mark.parametrize(
    "path", ["/api/rows/9", "/api/rows/-1", "/api/rows/x", "/etc/passwd", "/static/app.js"]
)
def test_gives_nothing_else(trajectories, path):
    assert ask(trajectories, path)[0] == 404


def test_page_is_sent_with_the_policy_as_a_header_too(trajectories):
    status, headers, text = ask(trajectories, "/")
    assert status == 200
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "THREE QUARTERS".lower() not in text.lower()  # rows are not in the page


def test_a_lone_surrogate_can_be_looked_at(trajectories):
    from dataclasses import replace

    odd = replace(trajectories[0], answer="\ud800")
    assert ask([odd], "/api/rows/0")[2]["answer"] == "\ud800"


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "evil.example:9785",
        "127.0.0.1.evil.example",
        "192.168.0.7",
        "",
        "[::1",
        "localhost@evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/index", "/api/rows/0"])
def test_foreign_host_names_are_refused(trajectories, name, path):
    status, _, body = ask(trajectories, path, Host=name)
    assert status == 403
    assert "does not answer to the name" in body


@pytest.mark.parametrize("name", ["127.0.0.1:9785", "localhost", "localhost:8000", "[::1]:9785", "LOCALHOST"])
def test_own_names_are_answered(trajectories, name):
    assert ask(trajectories, "/api/index", Host=name)[0] == 200


def test_a_reachable_server_answers_to_addresses_and_its_own_names_only():
    for name in ("10.1.2.3:9785", "[fe80::1]", "localhost", socket.gethostname(), "viewer.lab:9785"):
        assert is_own_name(name, "viewer.lab")
    assert is_own_name("10.1.2.3", "0.0.0.0")
    assert not is_own_name("evil.example", "0.0.0.0")
    assert not is_own_name("viewer.lab", "0.0.0.0")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_is_loopback(host, expected):
    assert is_loopback(host) is expected


def test_a_port_that_is_taken_is_named_with_the_way_out(trajectories):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port}.*--port \(0 takes a free one\)"):
            serve(contents(trajectories), port=port)


def test_an_address_of_another_machine_is_refused(trajectories):
    with pytest.raises(UsageError, match=r"Cannot listen on 203\.0\.113\.1"):
        serve(contents(trajectories), host="203.0.113.1", port=0)
