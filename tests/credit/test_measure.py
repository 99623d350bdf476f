"""What turns were worth: against exact values, resumed, of candidates, and what is refused."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from types import SimpleNamespace

import pytest
from credit import WORLD, exact, held_against, measured

import sweet_rl
from sweet_rl.cli.main import load
from sweet_rl.credit.measured import Plan, Recorder, State
from sweet_rl.errors import DataError, UsageError
from sweet_rl.interface import grades
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.records import replace_rows
from sweet_rl.types import Task, Trajectory
from sweet_rl.users.server import start_server
from sweet_rl.worlds import world_of
from tests.conftest import ROOT

BOUNDS = (0.0, 1.0, 0.0, 1.0)
FIXED = {"target": 0.1, "fixed": 8, "most": 256, "bounds": BOUNDS}
measure = load("credit measure")


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def played(number, **how):
    return sweet_rl.simulate(WORLD, num_tasks=number, agent="drawn", **how)


def test_values_are_those_that_all_paths_sum_to():
    recorded = played(6)
    rows, _ = measured(recorded, Plan(**{**FIXED, "fixed": 250}))
    for row in rows:
        number, path = int(row["task_id"].partition("/")[2]), ()
        for one in recorded:
            if one.task.task_id == row["task_id"]:
                path = tuple(each.content for each in one.dialogue_history if each.role == "assistant")
        before, got = row["measured"]["before"], row["measured"]
        assert before["mean"] == pytest.approx(exact(number, path[: row["turn_index"]]), abs=0.1)
        assert got["advantage"] == pytest.approx(got["after"]["mean"] - before["mean"], abs=1e-12)
        assert got["allocation"] == "fixed"
    found = held_against(rows, recorded)
    assert abs(fmean(one["error"] for one in found)) < 0.02


def test_a_state_is_played_on_once_and_the_end_of_an_episode_not_at_all():
    recorded = played(9)
    rows, recorder = measured(recorded, Plan(**FIXED))
    assert recorder.stats.episodes == 8 * len(rows)  # as many states before turns as there are turns
    for row, following in pairwise(rows):
        if following["turn_index"]:
            assert following["measured"]["before"] == row["measured"]["after"]
        else:
            (end,) = {row["measured"]["after"][name] for name in ("mean", "low", "high")}
            reward = next(one.reward for one in recorded if one.key == (row["task_id"], row["sample_index"]))
            assert (end, row["measured"]["after"]["n"], row["kind"]) == (reward, 0, "last")


@pytest.mark.parametrize("bounds", [BOUNDS, (None, None, 0.0, 1.0), (None, 1.0, 0.0, 0.5)])
def test_intervals_of_a_few_turns_cover(bounds):
    """In a world without bounds, too: equal returns allow for others, as far as those of recorded episodes."""
    recorded = played(90)
    found = held_against(measured(recorded, Plan(**{**FIXED, "bounds": bounds}))[0], recorded)
    assert len(found) > 150 and fmean(one["covers"] for one in found) > 0.88
    assert min(one["half"] for one in found) > 0


def test_equal_returns_without_bounds_are_as_those_between_the_recorded_ones():
    state = State(None, 0, values=[0.25] * 8)
    assert state.value((None, None, -1.0, 2.0)) == state.value((-1.0, 2.0, 0.0, 0.0))
    assert state.value((None, 1.0, 0.5, 0.5)) == state.value((0.25, 1.0, 0.0, 0.0))  # what was drawn was less
    assert State(None, 0, values=[5.0, 7.0]).value((None, None, 0.0, 1.0)).high > 7  # nothing is cut off


def test_two_tasks_with_one_name_do_not_share_their_grades():
    """Equal answers to equal tasks are graded once."""
    tests = ({"a": "f(1) == 1"}, {"a": "f(1) == 2"}, {"a": "f(1) == 1"})
    graded = []

    async def returns():
        async def submit(one):
            graded.append(one)
            return replace(one, reward=float("== 1" in one.task.test_cases["a"]))

        cast = SimpleNamespace(world=WORLD, options=WORLD.options())
        recorder = Recorder(cast, [], Plan(**FIXED), {"measure": "reward"})
        recorder._grades = SimpleNamespace(submit=submit)
        tasks = [Task("t", "Write f.", "", "", own, {"test_cases": own}) for own in tests]
        return [await recorder._return_of(Trajectory(task, (), "def f(x): return x")) for task in tasks]

    assert asyncio.run(returns()) == [1.0, 0.0, 1.0]
    assert len(graded) == 2


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [8, 32])
def test_intervals_of_fixed_n_cover_as_they_say(fixed):
    recorded = played(1050)
    found = held_against(measured(recorded, Plan(**{**FIXED, "fixed": fixed}))[0], recorded)
    inside = [one["covers"] for one in found if one["inside"]]
    assert len(found) >= 2000
    assert fmean(one["covers"] for one in found) >= 0.93
    assert fmean(inside) <= 0.98


def test_continuations_go_where_intervals_are_widest():
    recorded, told = played(12), []
    rows, recorder = measured(recorded, Plan(**{**FIXED, "fixed": None, "most": 120}), tell=told.append)
    assert {row["measured"]["allocation"] for row in rows} == {"stopped"}
    numbers = []
    for row in rows:
        got = row["measured"]
        most = [got[side]["n"] for side in ("before", "after")]
        assert got["high"] - got["low"] <= 0.2 + 1e-6 or 120 in most
        numbers += most
    assert max(numbers) > 3 * min(filter(None, numbers))
    assert len(told) == 1 and "estimated by the first 8 of 12" in told[0]
    estimate = int(told[0].split()[1].replace(",", ""))
    assert 0.4 < estimate / recorder.stats.episodes < 2.5


def test_every_round_draws_what_follows():
    """A state that was stopped after k continuations has had the first k that a fixed number has."""
    recorded = played(4)
    stopped = measured(recorded, Plan(0.1, None, 256, BOUNDS))[0]
    numbers = {row["measured"]["before"]["n"] for row in stopped}
    assert max(numbers) > 24
    for number in numbers:
        fixed = measured(recorded, Plan(0.1, number, 256, BOUNDS))[0]
        before = {(row["task_id"], row["turn_index"]): row["measured"]["before"] for row in fixed}
        for row in stopped:
            if row["measured"]["before"]["n"] == number:
                assert row["measured"]["before"] == before[row["task_id"], row["turn_index"]]


def test_the_same_seed_gives_the_same_rows_however_many_are_in_flight():
    recorded, plan = played(5), Plan(**{**FIXED, "fixed": None})
    ways = ({"at_once": 3}, {}, {"seed": 1})
    rows = [sorted(map(json.dumps, measured(recorded, plan, **how)[0])) for how in ways]
    assert rows[0] == rows[1] != rows[2]


def test_draws_of_many_continuations_do_not_collide():
    seeds = {sweet_rl.types.derive_seed("draws", n, bits=63) for n in range(100_000)}
    assert len(seeds) == 100_000 and max(seeds) < 2**63
    assert sweet_rl.types.derive_seed(0, "task", 1) < 2**31


# ---- the command


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Episodes of a world of our own, and how they were played."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples/worlds"))
    flags = {"world": "number:WORLD", "agent_model": "wild", "num_tasks": 4, "seed": 3, "quiet": True}
    load("simulate_interactions")("numbers:test", "run.jsonl", **flags)
    return tmp_path / "run.jsonl"


FEW = {"continuations": 4, "quiet": True}


def test_world_and_rules_are_those_of_the_record(run):
    measure("run.jsonl", "wild", **FEW)
    rows = rows_of(run.with_name("run.measured.jsonl"))
    turns = [m for row in rows_of(run) for m in row["dialogue_history"] if m["role"] == "assistant"]
    assert len(rows) == len(turns)
    assert [row["turn_digest"] for row in rows] == [turn_digest(one["input"], one["output"]) for one in turns]
    said = rows[0]["settings"]
    told = ("policy", "world", "measure", "seed", "target_error", "continuations", "max_steps")
    assert [said[name] for name in told] == ["wild", "number", "reward", 0, 0.1, 4, 6]
    # whose continuations is said
    measure("run.jsonl", "careful", measure="success", output_path="other.jsonl", **FEW)
    (other,) = {row["settings"]["policy"] for row in rows_of(run.with_name("other.jsonl"))}
    values = {row["measured"]["before"]["mean"] for row in rows_of(run.with_name("other.jsonl"))}
    assert other == "careful" and values <= {0, 0.25, 0.5, 0.75, 1}


def test_a_run_goes_on_where_it_was_killed(run):
    output = run.with_name("run.measured.jsonl")
    measure("run.jsonl", "wild", **FEW)
    whole = output.read_bytes()
    lines = whole.splitlines(keepends=True)
    output.write_bytes(b"".join(lines[-3:-1]) + lines[0] + lines[1][:50])  # parts of two dialogues, torn
    measure("run.jsonl", "wild", to_continue=True, **FEW)
    assert output.read_bytes() == whole
    with pytest.raises(UsageError, match="continuations was 4, is 5"):
        measure("run.jsonl", "wild", to_continue=True, **{**FEW, "continuations": 5})


def test_where_a_world_has_no_bounds_rewards_of_the_file_stand_for_them(run, monkeypatch, capsys):
    world = world_of("number:WORLD")
    monkeypatch.setattr(type(world), "scores", replace(world.scores, lowest=None, highest=None))
    measure("run.jsonl", "wild", **FEW)
    got = [row["measured"] for row in rows_of(run.with_name("run.measured.jsonl"))]
    assert all(one["low"] < one["high"] for one in got)
    assert "names no bounds" not in capsys.readouterr().out
    changed(run, reward=0.25)
    measure("run.jsonl", "wild", overwrite=True, **FEW)
    assert "number names no bounds of rewards, and all of 'run.jsonl' are 0.25:" in capsys.readouterr().out


def changed(run, **fields):
    rows = rows_of(run)
    for row in rows:
        for name, value in fields.items():
            row[name] = value(row) if callable(value) else value
    replace_rows(run, rows)


@pytest.mark.parametrize(
    ("change", "agent", "flags", "error", "says"),
    [
        ({"provenance": {"settings": {"task_type": "number"}}}, "wild", {}, DataError, "does not record its seed"),
        ({}, "halving", {}, UsageError, "went the same way in all .* Name one that draws"),
        ({}, "embedded", {"temperature": 0.0}, UsageError, "--temperature 0 plays every continuation alike"),
        ({}, "wild", {"max_continuations": 8, "measure": "success", "target_error": 0.0}, UsageError, "target_error"),
        ({"reward": None}, "wild", {}, UsageError, "has no reward. Grade the file first: sweet-rl evaluate_games"),
        ({"graded_with": {"grader": "mine"}}, "wild", {}, UsageError, "--grader mine"),
        (
            {"dialogue_history": lambda row: [*row["dialogue_history"][:2], {"role": "user", "content": "??"}, *row["dialogue_history"][3:]]},
            "wild", {}, DataError, "Replaying .* gave a different episode: message 2 was",
        ),
        ({"stop_reason": "world_failed"}, "wild", {}, UsageError, "no episodes that are over"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_with_what_is_needed(run, change, agent, flags, error, says):
    changed(run, **change)
    with pytest.raises(error, match=says):
        measure("run.jsonl", agent, world="number:WORLD", **{"quiet": True, **flags})


def test_episodes_by_two_rules_are_refused(run):
    rows = rows_of(run)
    rows[2]["provenance"]["settings"]["max_steps"] = 5
    replace_rows(run, rows)
    with pytest.raises(UsageError, match=r"line 3.*max_steps was 5, is 6.* Measure each run by itself"):
        measure("run.jsonl", "wild", **FEW)


def test_candidates_of_a_state_are_played_on(run, capsys):
    rows, sampled = rows_of(run), []
    for row in rows[:2]:
        first, second = [m for m in row["dialogue_history"] if m["role"] == "assistant"][:2]
        texts = [row["task"]["ground_truth"], "nothing", first["content"], "nothing"]
        same = {"task_id": row["task_id"], "sample_index": row["sample_index"], "turn_index": 1}
        same |= {"input": second["input"], "ground_truth": "", "additional_outputs": texts}
        sampled.append(same)
    replace_rows(run.with_name("sampled.jsonl"), sampled)
    with pytest.raises(UsageError, match=r"Name the file .* with --trajectories"):
        measure("sampled.jsonl", "wild", **FEW)
    measure("sampled.jsonl", "wild", trajectories="run.jsonl", **FEW)
    # of equal candidates only one is played on
    assert " 32 continuations were played" in capsys.readouterr().out
    for row, given in zip(rows_of(run.with_name("sampled.measured.jsonl")), sampled, strict=True):
        assert row["turn_digest"] == turn_digest(given["input"], *given["additional_outputs"])
        assert (row["kind"], row["repeat"]) == (["last", *["turn"] * 3], [False, False, True, False])
        right, wrong, _, again = row["measured"]["candidates"]
        assert (right["mean"], right["low"], right["high"], right["n"]) == (0.9, 0.9, 0.9, 0)
        assert wrong == again and wrong["n"] == 4 and wrong["mean"] <= 0.8
        assert right["advantage"] == pytest.approx(0.9 - row["measured"]["before"]["mean"])
    sampled[1]["input"] = "another"
    replace_rows(run.with_name("sampled.jsonl"), sampled)
    with pytest.raises(DataError, match="not the prompt of turn 1"):
        measure("sampled.jsonl", "wild", trajectories="run.jsonl", overwrite=True, **FEW)


@pytest.mark.slow
def test_a_human_behind_a_server_says_again_what_it_said(tmp_path, monkeypatch):
    """Its address and prompt are those of the record; only what is new is asked. Equal answers are graded once."""
    monkeypatch.chdir(tmp_path)
    graded, grade = [], grades.grade
    monkeypatch.setattr(grades, "grade", lambda some, **how: graded.extend(some) or grade(some, **how))
    with start_server() as server:
        flags = {"num_tasks": 2, "quiet": True, "env_base_url": server.base_url, "agent_model": "embedded"}
        flags |= {"max_tokens": 24, "device": "cpu"}
        load("simulate_interactions")("mini:trades=10:test", "run.jsonl", **flags)
        load("evaluate_code")("run.jsonl", workers=1, quiet=True)
        measure("run.jsonl", "embedded", device="cpu", **FEW)
    rows = rows_of(tmp_path / "run.measured.jsonl")
    record = json.loads((tmp_path / "run.measured.jsonl.run.json").read_text())
    (human,), (agent,) = record["usage"]["user"].values(), record["usage"]["agent"].values()
    settings = rows[0]["settings"]
    assert (settings["max_tokens"], settings["measure"]) == (24, "reward") and settings["user_prompt"]
    replayed = sum(row["measured"]["before"]["n"] * row["turn_index"] for row in rows)
    assert human["replies"] < agent["replies"] < human["replies"] + replayed
    assert all(0 <= row["measured"]["before"]["mean"] <= 1 for row in rows)
    assert len(graded) == len({(one.task.task_id, one.answer) for one in graded})
    changed(tmp_path / "run.jsonl", reward=0.123)
    with pytest.raises(UsageError, match=r"The reward of .* is 0\.123, and graded again it is"):
        human = {"env_model": "scripted", "env_base_url": None}
        measure("run.jsonl", "embedded", device="cpu", overwrite=True, **human, **FEW)
