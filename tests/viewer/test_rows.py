"""What the viewer shows of rows, and by what it tells the kinds of files."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.commands.view import visualize_dialogue_histories
from sweet_rl.evaluation.episodes import read_episodes
from sweet_rl.records import load_trajectories
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.rows import LAYOUTS, kind_of_trajectories
from sweet_rl.worlds import world_of
from tests.viewer import samples
from tests.viewer.samples import SHIPPING, dialogue, game_rows, index_by, listed, read, row, sample_rows

code = LAYOUTS["code"]


def test_index_lists_tasks_once_and_rows_in_file_order(trajectories):
    index = index_by("code", trajectories, "sample.jsonl")
    assert index["title"] == "sample.jsonl"
    assert [task["id"] for task in index["tasks"]][:2] == ["mini-test-0007", "mini-test-0012"]
    assert [one["task"] for one in listed(index)] == [0, 1, 0, 1, 0, 1, 2, 2, 3]
    names = ("task", "repeat", "reward", "published", "stop", "turns", "failures")
    for place, values in (
        (2, (0, 1, 0.6, 0.5, "answered", 2, 0)),
        (3, (1, 1, None, None, "policy_failed", 1, 1)),
        (7, (2, 1, None, None, None, 2, 0)),
    ):
        assert listed(index)[place] == dict(zip(names, values, strict=True))


def test_index_stays_light():
    task = SHIPPING | {"problem_description": "a  long\nstory " * 1000}
    (found,) = index_by("code", read(row(task, 0, dialogue(task), None, "answered")))["tasks"]
    summary = found["summary"]
    assert len(summary) <= 180 and summary.startswith("a long story a long story") and summary.endswith("…")


def test_row_has_the_answer_without_fence_beside_the_hidden_function(trajectories):
    shown = code.row(trajectories[2])
    assert shown["answer"].startswith("\n```python\ndef shipping_fee")
    assert re.fullmatch(r"def shipping_fee.*return base", shown["code"], re.DOTALL)
    assert shown["hidden"] == SHIPPING["ground_truth"].strip("\n")
    assert shown["grades"] == {"fixed": 0.6, "published": 0.5}
    # An indented first line is an IndentationError, and must look like one.
    (trajectory,) = read(row(SHIPPING, 0, dialogue(SHIPPING, "x"), " def f(): pass", "answered"))
    assert code.row(trajectory)["code"] == " def f(): pass"


def test_tests_are_results_where_graded_and_expressions_where_not(trajectories):
    graded, bare = code.row(trajectories[2])["tests"], code.row(trajectories[3])["tests"]
    last = {"name": "test10", "expression": "shipping_fee(100, True)", "outcome": "failed"}
    assert graded[9] == last | {"expected": "765", "got": "485", "detail": ""}
    assert [test["outcome"] for test in graded] == ["passed"] * 6 + ["failed"] * 4
    expressions = ("summarise_levels([])", "summarise_levels(['ERROR a', 'WARN b'])")
    assert bare == [{"name": f"test{place}", "expression": one} for place, one in enumerate(expressions, 1)]


@pytest.mark.parametrize(
    "odd",
    [
        {"test_results": 7, "grades": [1], "grading_details": "x"},
        {"test_results": None, "grades": {"fixed": "high", "published": True}},
    ],
)
def test_other_peoples_fields_of_our_names_do_no_harm(odd):
    task = samples.PUBLISHED | {"task_id": "p"}
    (trajectory,) = read(row(task, 0, dialogue(samples.PUBLISHED, "x"), "x", "answered", **odd))
    shown = code.row(trajectory)
    assert (shown["grades"], len(shown["tests"])) == ({}, 2)
    mixed = replace(trajectory, extra={"test_results": [1, {"name": 3, "got": None, "mine": 1}]})
    assert code.row(mixed)["tests"] == [{"name": "3"}]


def test_prompts_are_written_as_what_they_add(trajectories):
    turns = [entry for entry in trajectories[0].dialogue_history if entry.role == "assistant"]
    messages = [entry for entry in code.row(trajectories[0])["messages"] if entry["role"] == "assistant"]
    assert messages[0]["input"] == turns[0].input
    prompt = messages[0]["input"]
    for turn, message in zip(turns[1:], messages[1:], strict=True):
        assert "input" not in message
        prompt += message["more"]
        assert prompt == turn.input
    history = trajectories[0].dialogue_history  # prompts that do not continue are written whole
    apart = (replace(history[1], input="ab"), replace(history[3], input="ac"))
    others = replace(trajectories[0], dialogue_history=apart)
    assert [entry["input"] for entry in code.row(others)["messages"]] == ["ab", "ac"]


def test_thoughts_are_given_only_where_there_are_any(trajectories):
    messages = code.row(trajectories[0])["messages"]
    assert [index for index, entry in enumerate(messages) if "thoughts" in entry] == [3]
    thought = "The member discount is still open. One question should settle it, then I can answer."
    assert messages[3]["thoughts"] == thought
    assert not any("output" in entry for entry in messages)


def test_raw_output_is_given_where_it_is_not_thoughts_and_visible_text(trajectories):
    more = {"I think. OUTPUT:visible": {"thoughts": "I think."}}
    more |= {"visible and more": {"output": "visible and more"}}
    for output, shown in ({"visible": {}, "OUTPUT:visible": {}} | more).items():
        turn = replace(trajectories[0].dialogue_history[1], content="visible", output=output, input="")
        (message,) = code.row(replace(trajectories[0], dialogue_history=(turn,)))["messages"]
        assert {name: message[name] for name in ("thoughts", "output") if name in message} == shown


def test_reflections_are_shown_and_found(trajectories):
    turn = replace(trajectories[0].dialogue_history[1], reflection="A Thought about it.")
    reflected = replace(trajectories[0], dialogue_history=(turn,))
    (message,) = code.row(reflected)["messages"]
    assert message["reflection"] == "A Thought about it."
    assert "a thought about it." in code.text(reflected).lower()
    assert "reflection" not in code.row(trajectories[0])["messages"][1]


def test_search_covers_what_was_said_thought_asked_and_answered(trajectories):
    text = code.text(trajectories[0]).lower()
    said = ("mini-test-0007", "web shop", "discount is still open", "three quarters", "max(fee, 199)")
    assert [words for words in said if words not in text] == []
    assert "you help somebody" not in text  # the prompt is the same in every row


def test_failures_keep_kind_status_attempts_and_turn(trajectories):
    (failure,) = code.row(trajectories[1])["failures"]
    assert [failure[name] for name in ("kind", "status", "attempts", "turn")] == ["rate_limited", 429, 4, 0]
    assert code.row(trajectories[3])["error"]["kind"] == "bad_request"


# ---- worlds that reward turns


def test_index_names_tasks_by_errand_and_never_by_what_is_hidden_and_says_what_was_cut_short():
    index = index_by("game", read(*game_rows()))
    island = "lantern/5: You are on an island. Light the great lantern again."
    names = ["twenty_questions/7: Questions:", samples.ERRAND, island]
    assert [task["summary"] for task in index["tasks"]] == names
    assert {one["score"] for one in listed(index)} == {"return"}
    assert [one["truncated"] for one in listed(index)] == [False, True, False, True, False]


def test_a_shop_that_tells_its_errand_only_when_entered():
    task = {key: value for key, value in samples.KETTLE.items() if key != "instruction"}
    history = samples.played(task, ("search[x]", 0.0, "Nothing."))
    (told,) = read(row(task, 0, history, None, "turn_limit", instruction="Find me a lamp"))
    assert index_by("game", [told])["tasks"][0]["summary"] == "Find me a lamp"
    index = index_by("game", read(row(task, 0, history, None, None)))
    assert index["tasks"][0]["summary"] == "webshop/3: Buy what the shop's first page asks for."
    assert listed(index)[0]["truncated"] is None


def test_rows_carry_turn_rewards_where_there_are_any_and_search_covers_the_errand():
    games, layout = read(*game_rows()), LAYOUTS["game"]
    rewards = [
        [one.get("reward") for one in layout.row(games[place])["messages"] if one["role"] == "assistant"]
        for place in (0, 3)
    ]
    assert rewards == [[-1.0, 0.0], [None]]
    assert "blue kettle" in layout.text(games[3])
    assert layout.row(games[0])["hidden"] == "river"


def test_a_worlds_own_name_of_its_score_is_used():
    (told,) = read(game_rows()[0] | {"provenance": {"settings": {"world": "code"}}})
    assert LAYOUTS["game"].row(told)["score"] == world_of("code").scores.name != "return"


# ---- which layout shows a file: by what its rows have, whatever world they name


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (lambda _: sample_rows(), "code"),
        (lambda _: game_rows(), "game"),
        (samples.page_rows, "design"),
        (lambda folder: samples.page_rows(folder)[:1] + sample_rows(), "design"),
        (lambda _: [sample_rows()[0] | {"answer": "pictures/7.png"}], "design"),  # as published rows name it
        (lambda _: [], "code"),
    ],
)
def test_rows_decide(tmp_path, rows, kind):
    told = {"provenance", "settings"}
    no_world = [{name: one[name] for name in one if name not in told} for one in rows(tmp_path)]
    assert kind_of_trajectories(read(*no_world)) == kind


def test_one_stage_and_one_call_show_pictures_too(tmp_path, capsys):
    saved = samples.write_rows(tmp_path / "pages.jsonl", samples.page_rows(tmp_path))
    visualize_dialogue_histories(str(saved), export=str(tmp_path / "one.html"))
    assert "rows exported to" in capsys.readouterr().out
    sweet_rl.view(saved, tmp_path / "two.html")
    pages = [Path(tmp_path / name).read_text() for name in ("one.html", "two.html")]
    assert all(len(re.findall("data:image/png;base64|iVBORw0KGgo", page)) > 1 for page in pages)


# ---- files that earlier versions wrote (tests/viewer/earlier, by their day)

EARLIER = Path(__file__).parent / "earlier"
KINDS = {"code.jsonl": "code", "game.jsonl": "game", "sampled.jsonl": "turns", "ranked.jsonl": "turns"}
KINDS |= {"pairs.jsonl": "pairs", "code.report.json": "report"}
FILES = sorted(path.relative_to(EARLIER).as_posix() for path in EARLIER.glob("*/*"))
assert {Path(name).name for name in FILES} == set(KINDS)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_an_earlier_version_is_read_and_shown(name, tmp_path):
    file = tmp_path / Path(name).name
    file.write_bytes((EARLIER / name).read_bytes())
    library = Library([file])
    (shown,) = library.files
    shown.bring_up()
    assert shown.kind == KINDS[file.name]
    if shown.kind == "report":
        assert shown.document()
    else:
        assert [shown.row(place) for place in range(len(file.read_text().splitlines()))]
        assert shown.index.broken == []
    asyncio.run(library.close())
    if shown.kind not in {"code", "game"}:
        return
    found, rows = read_episodes(file), load_trajectories(file)
    assert [each.reward for each in found.episodes] == [row.reward for row in rows] != []
    assert all(row.reward is not None and row.dialogue_history for row in rows)
    assert not found.problems
