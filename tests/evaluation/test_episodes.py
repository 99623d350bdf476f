"""Rows to numbers: what counts, what does not, and files that are torn or being written."""

import json

import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from sweet_rl.errors import DataError, UsageError
from sweet_rl.evaluation.comparison import labels_of
from sweet_rl.evaluation.episodes import episodes_of, read_episodes, rows_at
from sweet_rl.evaluation.page import report_page
from sweet_rl.evaluation.report import passes, report_of
from sweet_rl.records import load_trajectories, locked
from sweet_rl.worlds import Scores, World, load_tasks
from sweet_rl.worlds.text_games import games_of
from sweet_rl.worlds.webshop.world import WebShop
from tests.evaluation.samples import row, write


def test_an_episode_in_numbers(tmp_path):
    rows = [
        row("t1", 1.0, turns=3, family="sums"),
        row("t2", 0.5),
        row("t3", 1.0, stop_reason="user_failed", error={"kind": "timeout"}),
    ]
    path = write(tmp_path / "a.jsonl", rows)
    first, second, third = read_episodes(path).episodes
    assert (first.success, first.reward, first.turns, first.questions, first.family) == (1, 1.0, 3, 2, "sums")
    assert (second.success, second.questions) == (0, 0)
    assert (third.failed, third.reward, third.success) == (True, None, None)
    assert [each["task_id"] for each in rows_at(tmp_path / "a.jsonl", [second.offset])] == ["t2"]
    found = (read_episodes(path), episodes_of(load_trajectories(path)))
    on_disk, in_memory = ([(one.task, one.success, one.turns) for one in each.episodes] for each in found)
    assert on_disk == in_memory


def graded(task, reward, outcome="", detail="", finish="stop", content=None, **more):
    """An episode of one turn, with a test that came to this."""
    tests = [{"name": "t1", "expression": "f(1)", "outcome": outcome, "expected": "2", "detail": detail}]
    one = row(task, reward, test_results=tests if outcome else None, grades={"fixed": reward}, **more)
    one["dialogue_history"][1]["finish_reason"] = finish
    if content is not None:
        one["dialogue_history"][1]["content"] = content
    return one


LATE = {"answer": "No answer", "stop_reason": "turn_limit"}
ASSERTS = {"fixed_note": "cannot be graded: an assert"}
SILENT = {"kind": "timeout", "detail": "60 s"}
NOT_RUN = {"outcome": "failed", "detail": "not run"}
WHY = {
    "": graded("solved", 1.0, "passed", finish="length"),  # cut off and right
    "wrong value": graded("wrong", 0.0, "failed", grading_details={"fixed_note": "returned None"}),
    "exception": graded("raises", 0.0, "error", "ZeroDivisionError: division by zero"),
    "code does not parse": graded("torn", 0.0, "error", "SyntaxError: expected ':' (<answer>, line 1)"),
    "function is missing": graded("prose", 0.0, "error", "NameError: name 'f' is not defined"),
    "time-out": graded("slow", 0.0, "timeout"),
    "forbidden word": graded("word", 0.0, **NOT_RUN, grading_details={"filtered_by": "import os"}),
    "no answer: turn limit": graded("late", 0.0, **NOT_RUN, **LATE),
    "no answer: context full": graded("full", 0.0, **NOT_RUN, **LATE | {"stop_reason": "context_full"}),
    "cut off": graded("cut", 0.0, **NOT_RUN, **LATE, finish="length"),
    "refused": graded("refused", 0.0, **NOT_RUN, **LATE, finish="refused", content=""),
    "tool call instead of text": graded("calls", 0.0, **NOT_RUN, **LATE, finish="tool_calls", content=""),
    "empty reply": graded("silent", 0.0, **NOT_RUN, **LATE, content=" \n\t"),
    "not gradable": graded("asserts", None, "reference_none", grading_details=ASSERTS),
    "agent could not be asked": graded("down", None, stop_reason="policy_failed", error=SILENT),
    "odd": graded("own", 0.0, outcome="odd"),
}


def test_every_episode_that_is_no_success_has_one_reason(tmp_path):
    path = write(tmp_path / "a.jsonl", list(WHY.values()))
    found = read_episodes(path)
    assert [one.category for one in found.episodes] == list(WHY)
    why = {one.category: one.why for one in found.episodes}
    assert (why["not gradable"], why["agent could not be asked"]) == ("an assert", "timeout: 60 s")
    assert why["wrong value"] == "f(1): returned None"
    report = report_of(found, "a")
    assert {each.name: len(each.episodes) for each in report.categories} == dict.fromkeys(list(WHY)[1:], 1)
    assert report.to_json()["categories"]["refused"] == {
        "episodes": 1, "share": 1 / 16, "examples": [{"task": "refused", "sample": 0, "why": ""}]
    }  # fmt: skip
    assert report.to_json()["not_gradable"] == {"asserts": "an assert"}
    assert report.to_json()["agent_turns"] == {
        "all": 16, "cut off": 2, "refused": 1, "tool call instead of text": 1, "empty reply": 1
    }  # fmt: skip
    assert [one.category for one in episodes_of(load_trajectories(path)).episodes] == list(WHY)


def test_turns_count_that_are_most_of_an_episode(tmp_path):
    rows = []
    for cut in range(4):
        one = graded(f"t{cut}", 0.0, "failed", turns=4)
        turns = [entry for entry in one["dialogue_history"] if entry["role"] == "assistant"]
        for turn in turns[:cut]:
            turn["finish_reason"] = "length"
        rows.append(one)
    found = read_episodes(write(tmp_path / "a.jsonl", rows)).episodes
    assert [one.category for one in found] == ["wrong value", "wrong value", "wrong value", "cut off"]


def test_games_and_pages_have_reasons_of_their_own(tmp_path):
    taxi = {"provenance": {"settings": {"task_type": "dangerous_taxi", "max_steps": 15}}, "answer": None}
    game = {"won": False, "outcome": "no_such_action"}
    shop = {"provenance": {"settings": {"task_type": "webshop", "max_steps": 10}}, "answer": "('b1',)"}
    page = {"provenance": {"settings": {"task_type": "html", "max_steps": 10}}, "answer": "a.png"}
    parts = {"combined": 0.5, "ssim": 0.6, "colour": 0.7, "text": 0.1, "layout": 0.6}
    broken = {"picture": "picture", "failures": [{"kind": "answer_timeout", "detail": "30 s"}]}
    rows = [
        row("t1", -0.5, stop_reason="ended", game=game, **taxi),
        row("t2", -0.5, stop_reason="turn_limit", game={"won": False}, **taxi),
        row("t3", 0.5, stop_reason="ended", **shop),
        row("t4", 0.5, grades=parts, grading_details={"picture": "picture"}, **page),
        row("t5", 0.5, grades=parts, grading_details=broken, **page),
        row("t6", 0.2, grades=parts, grading_details={"picture": "none"}, **page | {"answer": "No answer"}),
        row("t7", 1.0, grades=parts, grading_details={"picture": "picture"}, **page),
        row("t8", 0.0, stop_reason="ended", outcome="the knight is lost", **shop),  # a world's own word
    ]
    found = [read_episodes(write(tmp_path / "a.jsonl", [one])).episodes[0] for one in rows]
    games = ["lost: no such action", "turn limit", "ended short of the goal"]
    pages = ["page differs, in its text most", "page did not render", "no answer", ""]
    assert [one.category for one in found] == [*games, *pages, "the knight is lost"]


@pytest.mark.parametrize(("cut", "of", "warns"), [(1, 20, False), (2, 20, True), (3, 3, True)])
def test_turns_that_were_cut_off_are_said_on_the_first_line(tmp_path, cut, of, warns):
    rows = [graded(f"t{n}", 0.0, "failed", finish="length" if n < cut else "stop") for n in range(of)]
    found = read_episodes(write(tmp_path / "a.jsonl", rows))
    report = report_of(found, "a", about={"agent": {"max_tokens": 16}})
    first = str(report).splitlines()[0]
    assert ("cut off" in first and "limit of 16: raise --max_tokens" in first) is warns
    assert bool(report.to_json()["warnings"]) is warns


def test_a_world_that_does_not_say_what_success_is_has_no_success(tmp_path):
    class Own(World):
        name, max_turns = "own", 3

    class Marked(Own):
        scores = Scores(success_return=0.75)

    settings = {"provenance": {"settings": {"task_type": "own", "max_steps": 3}}}
    rows = [row(f"t{n}", reward, **settings, **LATE) for n, reward in enumerate((0.5, 0.5, 1.0))]
    path = write(tmp_path / "a.jsonl", rows)
    names = [line.name for line in report_of(read_episodes(path, Own()), "a").lines]
    assert names == ["grade", "turns"]  # a grader's, which is between 0 and 1
    found = report_of(read_episodes(path, Marked()), "a")
    assert (found.lines[0].name, found.lines[0].estimate.mean) == ("success", pytest.approx(1 / 3))


def test_reflect_rl_does_not_learn_in_a_world_that_does_not_say_what_success_is():
    class Shop(WebShop):
        succeeded = World.succeeded

    (task, *_) = load_tasks("webshop:test")
    for world in (WebShop(), Shop()):
        with games_of(world, world.options(max_turns=1)) as make_game:
            game = make_game()
            game.reset(task, seed=0)
            if isinstance(world, Shop):
                with pytest.raises(UsageError, match=r"does not say what a success is.*success_return"):
                    game.step("search[cream]")
            else:
                assert game.step("search[cream]").info["succeeded"] is False


def test_intervals_stay_between_the_bounds_that_a_world_gives(tmp_path):
    shop = {"provenance": {"settings": {"task_type": "webshop", "max_steps": 2}}, "graded_with": None}
    rows = [row(f"t{n}", reward, turns=1 + (n > 0), **shop) for n, reward in enumerate((1.0, 1.0, 0.6))]
    lines = {one.name: one for one in report_of(read_episodes(write(tmp_path / "a.jsonl", rows)), "a").lines}
    assert 0 < lines["return"].estimate.low < 0.86 < lines["return"].estimate.high < 1
    assert lines["turns"].estimate.high < 2
    assert 0 < lines["success"].estimate.low < 2 / 3 < lines["success"].estimate.high < 1


def test_a_report_is_an_inert_page(tmp_path):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    rows = [
        graded(f"t{evil}", 0.0, "error", f"Error: {evil}", says=evil, family=f"f{evil}", agent=evil),
        graded("thinks", 0.0, "failed", finish="length", content="", family="g"),
    ]
    rows[1]["dialogue_history"][1]["thoughts"] = "so " * 400
    found = read_episodes(write(tmp_path / "a.jsonl", rows))
    about = {"agent": {"model": evil, "server_changes": ["temperature was left out.", evil]}}
    report = report_of(found, evil, about=about, usage={"agent": {evil: {"requests": 3}}})
    page = report_page(report, found, command=evil, made="today", folder=tmp_path)
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src &#39;none&#39;" in page
    assert "<li>temperature was left out.</li>" in page
    assert "cut off by the token limit behind 1,200 characters of thoughts" in page
    assert page.index("cut off") < page.index("<h1>")
    assert page.count('class="dialogue') == 2


def test_labels_are_as_short_as_they_differ():
    assert labels_of(["evals/code-test-a/episodes.jsonl", "evals/code-test-b/episodes.jsonl"]) == ["a", "b"]
    assert labels_of(["x/a.jsonl", "y/a.jsonl"]) == ["x/a", "y/a"]
    assert labels_of(["a.jsonl", "b.jsonl"]) == ["a", "b"]
    assert labels_of(["a.jsonl", "a.jsonl"]) == ["a.jsonl (1)", "a.jsonl (2)"]


def test_of_an_episode_that_was_played_again_the_last_row_counts(tmp_path):
    rows = [row("t1", None, stop_reason="user_failed"), row("t1", 1.0)]
    (one,) = read_episodes(write(tmp_path / "a.jsonl", rows)).episodes
    assert (one.failed, one.reward) == (False, 1.0)


def test_a_line_that_is_cut_off_is_told_and_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = json.dumps(row("t1", 1.0)) + "\n"
    path.write_text(whole + whole.replace("t1", "t2")[:200])
    found = read_episodes(path)
    assert len(found.episodes) == 1
    assert found.problems == ("line 2 is cut off: it is left out",)
    path.write_text(whole[:200] + "\n" + whole)
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: is not JSON"):
        read_episodes(path)
    path.write_text(whole + json.dumps(row("t2", "much")) + "\n")
    with pytest.raises(DataError, match="line 2: field 'reward' must be a finite number"):
        read_episodes(path)
    path.write_text("")
    with pytest.raises(UsageError, match="holds no trajectories"):
        read_episodes(path)


def test_lone_surrogates_and_a_byte_order_mark_are_read_as_the_viewer_reads_them(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [row("t1", 1.0, says="\ud83d cut, \\\\ud83d, \U0001f600"), row("t\udc00", 0.0)]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(json.dumps(one) + "\n" for one in rows).encode())
    assert b"\\ud83d cut" in path.read_bytes()
    assert [one.task for one in read_episodes(path).episodes] == ["t1", "t\ufffd"]
    whole = write(tmp_path / "b.jsonl", [row("t1", 1.0)])  # a task is the same, whatever else a row holds
    assert read_episodes(path).contents["t1"] == read_episodes(whole).contents["t1"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('"graded_with": "x"', r"Expected `object \| null` - at `\$.graded_with`"),
        ('"provenance": {"settings": [1]}', r"at `\$.provenance.settings`"),
        ('"sample_index": -1', "field 'sample_index' must be an integer from 0, got -1"),
        (f'"more": {"[" * 100_000}{"]" * 100_000}', "is nested too deeply"),
        (f'"task": {"[" * 100_000}{"]" * 100_000}', "is nested too deeply"),
    ],
)
def test_a_row_that_is_none_is_named_by_its_line(tmp_path, more, says):
    whole = json.dumps(row("t1", 1.0))
    (tmp_path / "a.jsonl").write_text(f"{whole}\n{whole[:-1]}, {more}}}\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{says}"):
        read_episodes(tmp_path / "a.jsonl")


def test_a_file_that_a_run_is_writing_is_told(tmp_path):
    path = write(tmp_path / "a.jsonl", [row("t1", 1.0)])
    with locked(path):
        assert "a run is writing to it" in read_episodes(path).problems[0]
    assert not read_episodes(path).problems


def test_published_rows_without_names_count_their_repeats(tmp_path):
    plain = row("t1", 1.0)
    for name in ("task_id", "sample_index", "provenance", "stop_reason", "graded_with"):
        del plain[name]
    del plain["task"]["task_id"]
    found = read_episodes(write(tmp_path / "a.jsonl", [plain, plain | {"reward": 0.0}]))
    assert [(one.sample, one.reward) for one in found.episodes] == [(0, 1.0), (1, 0.0)]
    assert len({one.task for one in found.episodes}) == 1


def test_pass_at_k_over_tasks_by_hand():
    """Two, none and four of four repeats: pass@2 is 5/6, 0 and 1, pass^2 is 1/6, 0 and 1."""
    values = {"a": [1.0, 1.0, 0.0, 0.0], "b": [0.0] * 4, "c": [1.0] * 4, "too few": [1.0]}
    some, every = passes(values, 2)
    assert (some.mean, every.mean) == (pytest.approx((5 / 6 + 0 + 1) / 3), pytest.approx((1 / 6 + 0 + 1) / 3))
    assert some.error == pytest.approx(stats.sem([5 / 6, 0, 1]))
    assert every.error == pytest.approx(stats.sem([1 / 6, 0, 1]))
    # tasks are what is independent: Wilson's interval of three of them
    wilson = proportion_confint(3 * some.mean, 3, method="wilson")
    assert (some.low, some.high) == pytest.approx(wilson, abs=1e-6)
