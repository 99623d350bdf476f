"""The server: what it gives, to whom, and how it says that it cannot listen."""

import asyncio
import json
import os
import socket

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sweet_rl.errors import UsageError
from sweet_rl.serving import is_loopback, is_own_name
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.rows import LAYOUTS
from sweet_rl.viewer.server import make_app, serve
from sweet_rl.worlds import world_of
from tests.viewer.samples import game_rows, index_by, write_rows

TOKEN = "a-token"


def ask(saved, path, host="127.0.0.1", token=TOKEN, **headers):
    """Status, headers and body of one request to a server that listens on `host`, of who has this token."""

    async def request():
        app = make_app(Library([saved]), token=TOKEN, host=host)
        async with TestClient(TestServer(app)) as client:
            await client.get(f"/?token={token}")
            await client.get("/api/index/0")
            response = await client.get(path, headers=headers)
            is_json = response.content_type == "application/json"
            return response.status, response.headers, await (response.json() if is_json else response.text())

    return asyncio.run(request())


def test_gives_the_index_and_each_row(sample_file, trajectories):
    index = index_by("code", trajectories, "sample.jsonl")
    assert ask(sample_file, "/api/index/0")[2] == index | {"broken": []}
    shown, expected = ask(sample_file, "/api/rows/0/8")[2], LAYOUTS["code"].row(trajectories[8])
    assert {name: shown[name] for name in expected} == expected
    (file,) = ask(sample_file, "/api/files")[2]["files"]
    assert (file["name"], file["kind"]) == ("sample.jsonl", "code")


@pytest.fixture
def evaluated(tmp_path, sample_file):
    """A folder of `eval` with its rows, its numbers and its page."""
    saved = tmp_path / "episodes.jsonl"
    saved.write_bytes(sample_file.read_bytes())
    measure = {"unit": "success", "mean": 0.25, "low": 0.1, "high": None, "tasks": 4}
    (tmp_path / "report.json").write_text(json.dumps({"measures": {"won": measure, "turns": {"mean": 3}}}))
    (tmp_path / "report.html").write_text("<h1>1</h1><script>steal()</script>")
    return saved


def test_how_the_episodes_did(sample_file, evaluated):
    found = ask(sample_file, "/api/results/0")[2]
    number = found.pop("number")
    assert (number["name"], number["unit"], number["mean"]) == ("success", "share", pytest.approx(5 / 12))
    assert number["low"] < 5 / 12 < number["high"]
    counts = {"rows": 9, "tasks": 4, "failed": 2, "ungraded": 2}
    played = {"agent": "llama-3.1-8b-instruct", "human": "scripted", "world": None}
    assert found == counts | played | {"page": False}
    found = ask(evaluated, "/api/results/0")[2]
    assert found["number"] == {"name": "won", "unit": "share", "mean": 0.25, "low": 0.1, "high": None}
    report = evaluated.with_name("report.json")
    os.utime(report, (1, 1))  # rows are newer: it speaks of others
    assert ask(evaluated, "/api/results/0")[2]["number"]["name"] == "success"
    rows = [row | {"provenance": {"settings": {"world": "lantern"}}} for row in game_rows()]
    games = ask(write_rows(sample_file.with_name("games.jsonl"), rows), "/api/results/0")[2]
    assert (games["world"], games["number"]["name"]) == ("lantern", world_of("lantern").scores.name)
    report.write_text('{"measures": {"won": {"mean": "high"}}}')
    assert ask(evaluated, "/api/results/0")[2]["number"]["name"] == "success"


def test_a_runs_own_page_may_run_nothing_and_is_no_other_file(sample_file, evaluated, tmp_path):
    status, headers, text = ask(evaluated, "/reports/0")
    assert (status, text) == (200, "<h1>1</h1><script>steal()</script>")
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none';")
    assert "script" not in headers["Content-Security-Policy"]
    assert ask(evaluated, "/reports/0", token="")[0] == 403
    assert ask(sample_file, "/reports/0")[0] == 404
    page = evaluated.with_name("report.html")
    page.unlink()
    page.symlink_to(tmp_path / "report.json")
    assert ask(evaluated, "/reports/0")[0] == 404


@pytest.mark.parametrize(
    "path", ["/", "/api/files", "/api/results/0", "/api/index/0", "/api/rows/0/0", "/api/search/0?text=a"]
)
@pytest.mark.parametrize("token", ["", "a-toke", "a-token2", "\u00e9"])
def test_who_has_no_token_is_answered_nothing(sample_file, path, token):
    status, headers, body = ask(sample_file, path, token=token)
    assert status == 403
    assert "Set-Cookie" not in headers and "shipping" not in str(body)


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(sample_file):
    async def request():
        async with TestClient(TestServer(make_app(Library([sample_file]), token=TOKEN))) as client:
            response = await client.get(f"/?token={TOKEN}", allow_redirects=False)
            return response.status, response.headers["Location"], response.headers["Set-Cookie"]

    status, place, cookie = asyncio.run(request())
    assert (status, place) == (302, "/")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie


FOUND = {"THREE QUARTERS": [0], "summarise_levels": [1, 3, 5], "nowhere to be found": [], "%3C/script": [8]}


@pytest.mark.parametrize("text", FOUND)
def test_search_finds_rows_whatever_the_case(sample_file, text):
    assert ask(sample_file, f"/api/search/0?text={text}")[2] == FOUND[text]


@pytest.mark.parametrize(
    "path",
    "/api/rows/0/9 /api/rows/0/-1 /api/rows/1/0 /api/index/1 /api/rows/x /etc/passwd /static/app.js".split(),
)
def test_gives_nothing_else(sample_file, path):
    assert ask(sample_file, path)[0] == 404


def test_page_is_sent_with_the_policy_as_a_header_too(sample_file):
    status, headers, text = ask(sample_file, "/")
    policy = headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy and "frame-ancestors 'none'" in policy
    assert (status, headers["X-Content-Type-Options"]) == (200, "nosniff")
    assert "THREE QUARTERS".lower() not in text.lower()  # rows are not in the page


def test_a_lone_surrogate_can_be_looked_at(sample_file, tmp_path):
    odd = json.loads(sample_file.read_text().splitlines()[0]) | {"answer": "\ud800"}
    saved = write_rows(tmp_path / "odd.jsonl", [odd])
    assert ask(saved, "/api/rows/0/0")[2]["answer"] == "\ud800"


EVIL = "evil.example evil.example:9785 127.0.0.1.evil.example 192.168.0.7 [::1 localhost@evil.example"


@pytest.mark.parametrize("name", [*EVIL.split(), ""])
@pytest.mark.parametrize("path", ["/", "/api/index/0", "/api/rows/0/0"])
def test_foreign_host_names_are_refused(sample_file, name, path):
    status, _, body = ask(sample_file, path, Host=name)
    assert status == 403 and "does not answer to the name" in body


@pytest.mark.parametrize("name", ["127.0.0.1:9785", "localhost", "localhost:8000", "[::1]:9785", "LOCALHOST"])
def test_own_names_are_answered(sample_file, name):
    assert ask(sample_file, "/api/index/0", Host=name)[0] == 200


def test_a_reachable_server_answers_to_addresses_and_its_own_names_only():
    for name in ("10.1.2.3:9785", "[fe80::1]", "localhost", socket.gethostname(), "viewer.lab:9785"):
        assert is_own_name(name, "viewer.lab")
    assert is_own_name("10.1.2.3", "0.0.0.0")
    assert not is_own_name("evil.example", "0.0.0.0")
    assert not is_own_name("viewer.lab", "0.0.0.0")


def test_is_loopback():
    hosts = ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "10.0.0.1", "example.org")
    assert list(map(is_loopback, hosts)) == [True] * 4 + [False] * 3


def test_a_port_that_is_taken_is_named_with_the_way_out(sample_file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port}.*--port \(0 takes a free one\)"):
            serve(Library([sample_file]), port=port)


def test_an_address_of_another_machine_is_refused(sample_file):
    with pytest.raises(UsageError, match=r"Cannot listen on 203\.0\.113\.1"):
        serve(Library([sample_file]), host="203.0.113.1", port=0)
