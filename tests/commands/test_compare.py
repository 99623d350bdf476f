"""Two runs, task by task: the numbers by hand, what is refused, and a page that holds hostile texts."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from sweet_rl.commands.runs import compare as stage
from sweet_rl.errors import UsageError
from tests.evaluation.samples import row, write

compare = partial(stage, html="comparison.html")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_page_is_written_only_where_one_is_asked_for(tmp_path, capsys):
    files = two(tmp_path)
    stage(*files)
    assert "success, %" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl"}
    with pytest.raises(UsageError, match=r"must end in \.html"):
        stage(*files, html="page.json")
    stage(*files, html="page.html")
    assert {path.name for path in tmp_path.glob("page.*")} >= {"page.html", "page.json"}


def numbers(tmp_path):
    return json.loads((tmp_path / "comparison.json").read_text())


def two(tmp_path, ours=None, theirs=None):
    """Ten tasks in two families: A solves 0 to 6, B solves 5 to 7."""
    a = [row(f"t{n}", float(n < 7), turns=2, family=f"f{n % 2}", **(ours or {})) for n in range(10)]
    theirs = {"turns": 3, "agent": "b"} | (theirs or {})
    b = [row(f"t{n}", float(5 <= n < 8), family=f"f{n % 2}", **theirs) for n in range(10)]
    return write(tmp_path / "a.jsonl", a), write(tmp_path / "b.jsonl", b)


def test_the_numbers_by_hand(tmp_path, capsys):
    compare(*two(tmp_path))
    found = numbers(tmp_path)
    (pairing,) = found["pairings"]
    success, passed, turns, questions = pairing["rows"]
    assert (success["ours"]["mean"], success["theirs"]["mean"]) == (0.7, 0.3)
    each = success["difference"]
    assert (each["tasks"], each["wins"], each["losses"], each["ties"]) == (10, 5, 1, 4)
    assert each["mean"] == pytest.approx(0.4)
    assert (each["test"], each["p"]) == ("McNemar", pytest.approx(2 * (1 + 6) / 2**6))
    # differences: five 1, one -1, four 0: sum of squares 6 - 10 * 0.16 = 4.4; t with 9 degrees of freedom is 2.262
    half = 2.262 * (4.4 / 9 / 10) ** 0.5
    assert (each["low"], each["high"]) == (pytest.approx(0.4 - half), pytest.approx(0.4 + half))
    assert passed["name"] == "tests passed"
    assert (turns["difference"]["mean"], questions["difference"]["mean"]) == (-1, -1)
    families = {one["name"]: one["difference"]["mean"] for one in pairing["families"]}
    assert families == pytest.approx({"f0": 0.6, "f1": 0.2})
    assert [(one["first"], one["episodes"]) for one in pairing["endings"]] == [(2, [10, 0]), (3, [0, 10])]
    assert (pairing["only_ours"], pairing["only_theirs"]) == (["t0", "t1", "t2", "t3", "t4"], ["t7"])
    out = capsys.readouterr().out
    numbers_of = r"success, %\s+70.0\s+30.0\s+\+40.0\s+\[-10.0, \+90.0\]\s+0.219\s+McNemar\s+5\s+1\s+4"
    assert re.search(numbers_of, out)
    assert "the difference is not settled" in out


def test_the_interval_can_be_a_bootstraps(tmp_path, capsys):
    compare(*two(tmp_path), interval="bootstrap")
    each = numbers(tmp_path)["pairings"][0]["rows"][0]["difference"]
    assert (each["low"], each["high"]) == (0.0, 0.8)
    assert "95 % interval (bootstrap)" in capsys.readouterr().out


def test_one_run_against_several(tmp_path):
    a, b = two(tmp_path)
    c = write(tmp_path / "c.jsonl", [row(f"t{n}", 0.0, family=f"f{n % 2}") for n in range(10)])
    compare(a, b)
    alone = numbers(tmp_path)["pairings"][0]["rows"][0]["difference"]
    compare(a, b, c, overwrite=True)
    first, second = numbers(tmp_path)["pairings"]
    assert (first["other"], second["other"]) == ("b", "c")
    assert first["rows"][0]["difference"]["low"] < alone["low"]  # two intervals right together are wider
    assert second["only_ours"] == [f"t{n}" for n in range(7)]


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        ({"human": "llama-70b"}, r"their humans differ \(env_model 'scripted' and 'llama-70b'\)"),
        ({"graded_with": {"grader": "tests", "digest": "e"}}, r"graders differ \(digest 'd' and"),
        ({"provenance": {"settings": {"task_type": "html"}}}, "of different worlds"),
        ({"provenance": {"env_model": "scripted", "settings": {"task_type": "code", "max_steps": 5}}}, "max_steps 10 and 5"),
    ],
)  # fmt: skip
def test_what_is_unlike_is_refused_or_stands_on_the_page(tmp_path, theirs, says, capsys):
    files = two(tmp_path, theirs=theirs)
    with pytest.raises(UsageError, match=f"(?s)cannot be compared.*{says}.*--force"):
        compare(*files)
    assert not (tmp_path / "comparison.html").exists()
    compare(*files, force=True)
    assert "Warning: " in capsys.readouterr().out
    assert 'class="warnings"' in (tmp_path / "comparison.html").read_text()
    assert numbers(tmp_path)["warnings"]


def test_other_tasks_are_refused_and_what_is_shared_is_compared(tmp_path):
    a = write(tmp_path / "a.jsonl", [row("t1", 1.0), row("t2", 0.0), row("t3", 1.0)])
    b = write(tmp_path / "b.jsonl", [row("t1", 1.0), row("t2", 0.0)])
    changed = row("t1", 1.0)
    changed["task"]["ground_truth"] = "def f(): return 1"
    c = write(tmp_path / "c.jsonl", [changed, row("t2", 0.0), row("t3", 0.0)])
    with pytest.raises(UsageError, match=r"1 of 3 tasks are in a alone \(t3\)"):
        compare(a, b)
    with pytest.raises(UsageError, match=r"1 tasks have the same name and another content \(t1\)"):
        compare(a, c)
    compare(a, b, force=True)
    assert numbers(tmp_path)["pairings"][0]["rows"][0]["difference"]["tasks"] == 2
    with pytest.raises(UsageError, match="a and d have no task in common"):
        compare(a, write(tmp_path / "d.jsonl", [row("u1", 1.0)]), force=True, overwrite=True)
    halves = [[row("t1", ours), row("t2", theirs)] for ours, theirs in ((1.0, None), (None, 1.0))]
    halves = [write(tmp_path / f"{name}.jsonl", rows) for name, rows in zip("ef", halves, strict=True)]
    with pytest.raises(UsageError, match=r"No task has been graded in both '.*e\.jsonl' and '.*f\.jsonl'"):
        compare(*halves, overwrite=True)
    ungraded = write(tmp_path / "g.jsonl", [row("t1", None), row("t2", None)])
    with pytest.raises(UsageError, match=r"g\.jsonl' has no rewards: `sweet-rl evaluate .*g\.jsonl` grades"):
        compare(b, ungraded, overwrite=True)


def test_a_turn_of_ten_megabytes_is_cut_on_the_page(tmp_path):
    a = write(tmp_path / "a.jsonl", [row("t0", 1.0, says="long " * 2_000_000)])
    compare(a, write(tmp_path / "b.jsonl", [row("t0", 0.0)]))
    page = (tmp_path / "comparison.html").read_text()
    assert len(page) < 100_000
    assert "9,980,002 characters more" in page


def test_failed_episodes_are_in_no_pair_and_torn_files_are_told(tmp_path, capsys):
    a = write(tmp_path / "a.jsonl", [row("t1", 1.0), row("t2", None, stop_reason="policy_failed")])
    b = write(tmp_path / "b.jsonl", [row("t1", 0.0), row("t2", 1.0)])
    compare(a, b)
    found = numbers(tmp_path)
    assert found["pairings"][0]["rows"][0]["difference"]["tasks"] == 1
    assert found["runs"][0]["failed"] == 1
    with Path(b).open("a") as file:
        file.write('{"task": {"task_id')
    with pytest.raises(UsageError, match="b: line 3 is cut off: it is left out"):
        compare(a, b, overwrite=True)


def test_a_world_that_rewards_turns(tmp_path):
    settings = {"settings": {"task_type": "dangerous_taxi", "max_steps": 20}}
    runs = []
    for name, wins in (("a", {1, 2, 3}), ("b", {1})):
        ends = [(1.5 if n in wins else -0.5, {"won": n in wins}) for n in range(4)]
        told = enumerate(ends)
        rows = [row(f"dangerous_taxi/{n}", end, game=game, provenance=settings) for n, (end, game) in told]
        runs.append(write(tmp_path / f"{name}.jsonl", rows))
    compare(*runs)
    first, second, *_ = numbers(tmp_path)["pairings"][0]["rows"]
    assert (first["name"], first["difference"]["wins"]) == ("success", 2)
    assert (second["name"], second["unit"], second["difference"]["mean"]) == ("return", "number", 1.0)


def test_pages_have_no_success_and_show_their_pictures(tmp_path):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "pictures/p.png")
    settings = {"settings": {"task_type": "html", "max_steps": 10}}
    told, runs = {"provenance": settings, "answer": "pictures/p.png"}, []
    for name, reward in (("a", 0.75), ("b", 0.5)):
        runs.append(write(tmp_path / f"{name}.jsonl", [row(f"t{n}", reward, **told) for n in range(3)]))
    compare(*runs)
    first = numbers(tmp_path)["pairings"][0]["rows"][0]
    assert (first["name"], first["unit"], first["difference"]["mean"]) == ("similarity", "share", 0.25)
    assert (tmp_path / "comparison.html").read_text().count("data:image/png;base64,") == 6
    (tmp_path / "pictures/p.png").unlink()
    compare(*runs, overwrite=True)
    page = (tmp_path / "comparison.html").read_text()
    assert "data:image/png" not in page
    assert page.count("The picture is not where the row says.") == 6


def test_the_page_is_inert_and_has_what_made_it(tmp_path):
    files = two(tmp_path, ours={"says": HOSTILE})
    compare(*files)
    page = (tmp_path / "comparison.html").read_text()
    assert "<script" not in page
    assert "onerror=alert" not in page.replace("&lt;img src=x onerror=alert(2)&gt;", "")
    assert "default-src &#39;none&#39;" in page
    assert f"sweet-rl compare {files[0]}" in page
    with pytest.raises(UsageError, match="exists already"):
        compare(*files)


def test_a_name_has_one_line_of_the_table(tmp_path, capsys):
    name = f"\nOnly b solves everything\t{'x' * 1000}"
    files = []
    for run in (0, 1):
        rows = [row(f"{n} {name}", float(n == run), family=f"{n} {name}") for n in (0, 1)]
        files.append(write(tmp_path / f"{run}.jsonl", rows))
    compare(*files)
    text = capsys.readouterr().out
    assert text.count("Only b solves everything") == 4
    assert not any(line.startswith("Only b solves everything") for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 200


def test_trainings_are_compared_at_the_same_step(tmp_path, capsys):
    for name, every, rise in (("one", 1, 1), ("two", 10, 0.2)):  # two has gone further, in fewer rows
        (tmp_path / name).mkdir()
        lines = [{"step": every * n, "loss": 100 - rise * every * n, "note": "text"} for n in range(31)]
        lines.append({"step": every * 31})
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stage("one", "two")
    out = capsys.readouterr().out  # of one the mean over steps 28 to 30, of two what it had at step 30
    assert re.search(r"at step 30\s+one\s+two\nlast step\s+30\s+300\nloss\s+71\s+94\n", out)
    with pytest.raises(UsageError, match="drawn together by `sweet-rl view"):
        compare("one", "two")
    assert not (tmp_path / "comparison.html").exists()
    with pytest.raises(UsageError, match="compare runs of one kind"):
        compare("one", two(tmp_path)[0], overwrite=True)
    with pytest.raises(UsageError, match="at least two runs"):
        compare("one")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match=r"holds neither episodes\.jsonl"):
        compare("one", "nothing", overwrite=True)
