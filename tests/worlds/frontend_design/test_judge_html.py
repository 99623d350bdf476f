"""`judge_html`: what a server is sent, what its words mean, what a journal keeps, what the numbers are."""

import asyncio
import base64
import io
import json
from contextlib import asynccontextmanager
from pathlib import Path

import jsonschema
import pytest
from aiohttp import web
from PIL import Image

from sweet_rl.errors import DataError, UsageError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.serving import listening
from sweet_rl.worlds.frontend_design.judging import (
    NO_TARGET,
    Comparison,
    Outcome,
    Verdict,
    VisionJudge,
    for_judge,
    read_verdict,
    settled,
    win_rate,
)
from sweet_rl.worlds.frontend_design.stages import JudgeFlags, judge_html
from tests.browsers.fake_renderer import FakeRenderer, draw
from tests.grading.pages.runs import FAR, NEAR, TARGET, read, row, write

REQUEST = json.loads(Path(__file__).with_name("judge_request.json").read_text())
"""The schema of what the judge's server takes."""


def pictures_of(body):
    parts = [part for part in body["messages"][0]["content"] if part["type"] == "image_url"]
    return [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts]


@asynccontextmanager
async def serving(answer):
    """A strict server; `answer` makes its words, or a response, of the pictures' bytes."""
    asked = []

    async def handle(request):
        body = await request.json()
        jsonschema.validate(body, REQUEST)
        asked.append(pictures_of(body))
        said = answer(*asked[-1])
        if isinstance(said, web.Response):
            return said
        return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", handle)
    async with listening(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/v1", asked


def sees(target, first, second):
    """A judge with eyes for this: the number of rows that a page shares with the target."""

    def shared(picture):
        one, other = (Image.open(io.BytesIO(data)).convert("RGB") for data in (target, picture))
        height = min(one.height, other.height)
        return sum(one.getpixel((0, y)) == other.getpixel((0, y)) for y in range(height))

    return "They differ.\nVERDICT: " + ("FIRST" if shared(first) > shared(second) else "SECOND")


def comparison(a, b, **more):
    flags = {"output_path": "", "metric": "combined", "margin": 0.01, "max_tokens": 512, "batch_size": 8}
    return Comparison(JudgeFlags(run_a=str(a), run_b=str(b), max_pixels=10**6, quiet=True, **flags | more))


def judge(a, b, journal, answer=sees):
    """Judge two runs over HTTP; returns what the server was asked."""
    pages = FakeRenderer(fails={"slow": "timeout"})

    async def main():
        async with serving(answer) as (url, asked):
            client = OpenAIClient([url], retry=RetryPolicy(attempts=2, first_wait_s=0.0))
            try:
                eyes = VisionJudge(client, "eyes", prompt="Which one?")
                await comparison(a, b, output_path=str(journal)).by_judge(eyes, pages)
            finally:
                await client.close()
        return asked

    return asyncio.run(main())


def runs(folder, pages_a, pages_b, targets=None):
    """Two files, one task for each page; None is no picture."""
    paths = []
    for name, pages in (("a", pages_a), ("b", pages_b)):
        (folder / name).mkdir()
        rows = []
        for number, page in enumerate(pages):
            wanted, none = (targets or {}).get(number, TARGET), {} if page else {"answer": None}
            rows.append(row(f"t{number}", page, target=wanted, folder=folder / name, **none))
        paths.append(write(folder / name / "run.jsonl", rows))
    return paths


def report(a):
    return json.loads(a.with_suffix(".vs.run.report.json").read_text())


def test_wins_are_counted_and_both_orders_asked(tmp_path, capsys):
    a, b = runs(tmp_path, [NEAR, FAR, NEAR], [FAR, NEAR, FAR])
    asked = judge(a, b, tmp_path / "j.jsonl")
    assert len(asked) == 6
    target, near, far = (draw(page).image for page in (TARGET, NEAR, FAR))
    orders = (target, near, far), (target, far, near)
    assert {tuple(call) for call in asked} == {
        tuple(for_judge(one, 10**6) for one in call) for call in orders
    }
    assert "A wins 2, ties 0, loses 1 of 3 pages" in capsys.readouterr().out
    found = report(a)
    assert (found["wins"], found["ties"], found["losses"]) == (2, 0, 1)
    assert found["rate"]["mean"] == pytest.approx(2 / 3)
    verdicts = {(one["task_id"], one["order"], one["outcome"]) for one in read(tmp_path / "j.jsonl")}
    won = {"t0": "a", "t1": "b", "t2": "a"}
    assert verdicts == {(task, order, outcome) for task, outcome in won.items() for order in ("ab", "ba")}


def test_who_always_says_first_gives_ties(tmp_path, capsys):
    a, b = runs(tmp_path, [NEAR, FAR], [FAR, NEAR])
    judge(a, b, tmp_path / "j.jsonl", lambda *_: "VERDICT: FIRST")
    out = capsys.readouterr().out
    assert "A wins 0, ties 2, loses 0 of 2" in out
    assert "2  pages on which the two orders differ: ties" in out


def test_what_needs_no_judge_is_not_asked(tmp_path, capsys):
    pages_a, pages_b = [NEAR, None, None, NEAR, NEAR], [NEAR, NEAR, None, None, FAR]
    a, b = runs(tmp_path, pages_a, pages_b, {4: "<html>slow</html>"})
    assert judge(a, b, tmp_path / "j.jsonl") == []
    out = capsys.readouterr().out
    assert "A wins 1, ties 2, loses 1 of 4" in out
    assert "4  pages decided without asking" in out
    assert "1  pages whose target gives no picture" in out


def test_a_malformed_reply_is_kept_and_not_asked_again(tmp_path, capsys):
    a, b = runs(tmp_path, [NEAR], [FAR])
    asked = judge(a, b, tmp_path / "j.jsonl", lambda *_: "I like them both.")
    assert len(asked) == 2
    assert "1  pages without a verdict in both orders" in capsys.readouterr().out
    kept = read(tmp_path / "j.jsonl")
    assert [one["failure"]["kind"] for one in kept] == ["malformed_verdict"] * 2
    assert kept[0]["reply"] == "I like them both."
    assert judge(a, b, tmp_path / "j.jsonl") == []
    assert report(a)["rate"] == {"mean": 0.0, "low": 0.0, "high": 1.0, "error": None}


def test_a_failed_request_is_recorded_and_asked_again_by_the_next_run(tmp_path):
    a, b = runs(tmp_path, [NEAR, FAR], [FAR, NEAR])
    calls = []

    def refuses_once(*pictures):
        calls.append(pictures)
        if len(calls) == 2:
            return web.json_response({"error": {"message": "too large"}}, status=400)
        return sees(*pictures)

    judge(a, b, tmp_path / "j.jsonl", refuses_once)
    failed = [one for one in read(tmp_path / "j.jsonl") if one["outcome"] is None]
    assert [one["failure"]["kind"] for one in failed] == ["bad_request"]
    asked = judge(a, b, tmp_path / "j.jsonl")
    assert len(asked) == 1
    assert report(a)["wins"] + report(a)["losses"] == 2


def test_a_run_goes_on_where_it_was_stopped_but_not_with_other_pictures(tmp_path):
    a, b = runs(tmp_path, [NEAR, FAR, NEAR], [FAR, NEAR, FAR])
    journal = tmp_path / "j.jsonl"
    judge(a, b, journal)
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]) + lines[4][:20])  # torn by a crash
    assert len(judge(a, b, journal)) == 2
    assert sorted(journal.read_bytes().splitlines()) == sorted(whole.splitlines())
    (tmp_path / "a/t0_0.png").write_bytes(draw("<html><h1>Shop</h1></html>").image)
    assert len(judge(a, b, journal)) == 2


@pytest.mark.parametrize(
    ("text", "order", "outcome"),
    [
        ("VERDICT: FIRST", "ab", "a"), ("VERDICT: FIRST", "ba", "b"),
        ("good.\n**Verdict:** SECOND.", "ab", "b"), ("VERDICT: TIE", "ba", "tie"),
        ("VERDICT: FIRST? No, on second thought\nVERDICT: SECOND", "ab", "b"), ("FIRST", "ab", None),
        ("VERDICT: FIRSTLY", "ab", None), ("", "ab", None),
    ],
)  # fmt: skip
def test_how_a_reply_is_read(text, order, outcome):
    verdict = read_verdict(text, order=order)
    assert (verdict.outcome.value if verdict.outcome else None) == outcome
    assert (verdict.failure is None) == (outcome is not None)


def test_both_orders_together():
    a, b, tie, none = (Verdict(outcome) for outcome in (Outcome.A, Outcome.B, Outcome.TIE, None))
    assert settled([a, a]) is Outcome.A
    assert settled([tie, tie]) is settled([a, b]) is settled([a, tie]) is Outcome.TIE
    assert settled([a, none]) is settled([none, none]) is None


def test_win_rate_by_hand():
    """3 tasks of 1, 0.5 (a tie) and 0.5 (a win and a loss) vary as 8 z^2 / t^2 = 1.7 coins: Wilson's interval of 3 tasks."""
    found = win_rate([("x", Outcome.A), ("y", Outcome.TIE), ("z", Outcome.A), ("z", Outcome.B)])
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert found.rate.mean == pytest.approx(2 / 3)
    assert found.rate.low == pytest.approx(0.2077, abs=1e-3)
    assert found.rate.high == pytest.approx(0.9385, abs=1e-3)
    everywhere = win_rate([(str(task), Outcome.A) for task in range(10)]).rate
    assert (everywhere.mean, everywhere.high) == pytest.approx((1, 1))
    assert everywhere.low == pytest.approx(0.7225, abs=1e-3)


def test_large_pictures_are_scaled_down():
    out = io.BytesIO()
    Image.new("RGB", (1366, 4000), "red").save(out, "PNG")
    small = Image.open(io.BytesIO(for_judge(out.getvalue(), 500_000)))
    assert small.width * small.height <= 500_000
    assert small.width / small.height == pytest.approx(1366 / 4000, rel=0.01)


def graded(path, values, way="chromium"):
    rows = read(path)
    for one, value in zip(rows, values, strict=True):
        grades = {} if value is None else {"combined": value}
        one |= {"grades": grades, "graded_with": {"browser": way, "clip_model": str(path)}}
    return write(path, rows)


def test_by_metrics_the_higher_grade_wins_within_a_margin(tmp_path, capsys):
    a, b = runs(tmp_path, [NEAR] * 5, [NEAR] * 5)
    graded(a, [0.5, 0.5, 0.5, 0.5, None])
    graded(b, [0.4, 0.49, 0.51, 0.7, None])
    judge_html(str(a), str(b), judge="metrics", margin=0.0101)
    out = capsys.readouterr().out
    assert "A wins 1, ties 2, loses 1 of 4 pages; win rate  50.0" in out
    assert "1  pages whose target gives no picture" in out
    assert report(a)["counts"][NO_TARGET] == 1
    judge_html(str(a), str(b), judge="metrics", margin=0.0)
    assert "A wins 2, ties 0, loses 2" in capsys.readouterr().out


def test_what_cannot_be_compared_is_said(tmp_path):
    a, b = runs(tmp_path, [NEAR, FAR], [FAR, NEAR])
    with pytest.raises(UsageError, match=r"evaluate_html on it first"):
        judge_html(str(a), str(b), judge="metrics")
    graded(a, [0.5, 0.5])
    graded(b, [0.5, 0.5], way="firefox")
    with pytest.raises(UsageError, match="different ways"):
        judge_html(str(a), str(b), judge="metrics")
    with pytest.raises(UsageError, match="--metric"):
        judge_html(str(a), str(b), judge="metrics", metric="beauty")
    other = write(tmp_path / "other.jsonl", [row("elsewhere", NEAR, folder=tmp_path)])
    with pytest.raises(UsageError, match="no row in common"):
        comparison(a, other)
    wants_more = write(tmp_path / "more.jsonl", [row("t0", NEAR, target="<html>x</html>", folder=tmp_path)])
    with pytest.raises(DataError, match="another page"):
        comparison(a, wants_more)
    twice = write(tmp_path / "twice.jsonl", [row("t0", NEAR, folder=tmp_path)] * 2)
    with pytest.raises(DataError, match="twice"):
        comparison(a, twice)


def test_rows_without_a_partner_are_counted(tmp_path, capsys):
    a, b = runs(tmp_path, [NEAR, FAR, FAR], [NEAR, FAR])
    judge(a, b, tmp_path / "j.jsonl")
    assert "1  rows without a partner" in capsys.readouterr().out
