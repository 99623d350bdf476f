"""ATIF documents out and in: what the format has a place for stands there, and everything comes back."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.errors import DataError, UsageError
from sweet_rl.integrations.export import export
from sweet_rl.integrations.logs import read_documents
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.records import load_trajectories, replace_rows, trajectory_from_row, trajectory_to_row
from sweet_rl.types import AgentTurn
from tests.conftest import ROOT

jsonschema = pytest.importorskip("jsonschema", reason="needs the package jsonschema")
HARBOR = os.environ.get("SWEET_RL_HARBOR_PYTHON")
"""A Python (3.12 or newer) with harbor."""
FOREIGN, ANOTHERS = json.loads(Path(__file__).with_name("atif_documents.json").read_text()).values()
"""Documents of other people: one that harbor wrote, and one with everything that we read."""


@pytest.fixture(scope="module")
def episodes():
    """Sampled tokens, rewards at turns, thoughts, a grade, and an episode that failed."""
    sampled = sweet_rl.grade(sweet_rl.simulate("code", "mini:test", agent="embedded", num_tasks=2))
    game = sweet_rl.simulate("twenty_questions", num_tasks=1, options={"max_turns": 3})
    silent = "tests.integrations.agent:Silent"
    failed = sweet_rl.simulate("code", "mini:test", agent="expert", num_tasks=3, human=silent)[-1]
    asked, said, *rest = game[0].dialogue_history
    thought = replace(game[0], dialogue_history=(asked, replace(said, thoughts="Is it?"), *rest))
    return [*sampled, thought, failed]


@pytest.fixture
def folder(episodes, tmp_path):
    rows = tmp_path / "rows.jsonl"
    replace_rows(rows, map(trajectory_to_row, episodes))
    replace_rows(tmp_path / "credit.jsonl", scores(episodes))
    export(rows, tmp_path / "atif", to="atif", credit=str(tmp_path / "credit.jsonl"))
    return tmp_path / "atif"


def turns(one):
    return [entry for entry in one.dialogue_history if isinstance(entry, AgentTurn)]


def scores(episodes):
    """Rows of a file of `sweet-rl credit score` for the first two episodes."""
    for one in episodes[:2]:
        for place, turn in enumerate(turns(one)):
            key = {"task_id": one.task.task_id, "sample_index": one.sample_index, "turn_index": place}
            key |= {"turn_digest": turn_digest(turn.input, turn.output), "critic": "runs/critic"}
            yield key | {"hidden": {"advantage": 0.5 + place}}


def documents(folder):
    found = [json.loads(path.read_text()) for path in folder.glob("*.atif.json")]
    return {one["trajectory_id"]: one for one in found}


def test_what_the_format_has_a_place_for_stands_there(episodes, folder):
    found = documents(folder)
    assert len(found) == len(episodes)
    schema = json.loads((ROOT / "tests/integrations/atif_schema.json").read_text())  # of harbor 0.24.0
    for one in episodes:
        document = found[f"{one.task.task_id}.{one.sample_index}"]
        jsonschema.validate(document, schema)
        steps = document["steps"]
        assert [step["message"] for step in steps] == [entry.content for entry in one.dialogue_history]
        assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
        for step, entry in zip(steps, one.dialogue_history, strict=True):
            assert step["source"] == ("agent" if isinstance(entry, AgentTurn) else "user")
            if isinstance(entry, AgentTurn):
                metrics = step.get("metrics", {})
                assert metrics.get("completion_token_ids") == (entry.token_ids and list(entry.token_ids))
                assert metrics.get("logprobs") == (entry.logprobs and list(entry.logprobs))
                assert step["extra"].get("reward") == entry.reward
                assert step.get("reasoning_content") == entry.thoughts
        assert document["final_metrics"].get("extra", {}).get("reward") == one.reward
    first = found[f"{episodes[0].task.task_id}.0"]
    agent = [step["extra"]["credit"]["hidden"] for step in first["steps"] if step["source"] == "agent"]
    assert agent == [{"advantage": 0.5 + place} for place in range(len(agent))]
    sampled = [len(turn.token_ids) for turn in turns(episodes[0])]
    assert first["final_metrics"]["total_completion_tokens"] == sum(sampled) > 0


def test_they_come_back_whole(episodes, folder, tmp_path):
    export(folder, tmp_path / "back.jsonl", to="trajectories")
    back = {one.key: one for one in load_trajectories(tmp_path / "back.jsonl")}
    credit = [one.extra.get("turn_credit") for one in map(back.get, (one.key for one in episodes))]
    assert [known and known[0]["hidden"] for known in credit] == [{"advantage": 0.5}] * 2 + [None] * 2
    for one in back.values():
        one.extra.pop("turn_credit", None)
    assert back == {one.key: one for one in episodes}
    export(tmp_path / "back.jsonl", tmp_path / "again", to="atif")  # the column takes the place of the file
    assert documents(tmp_path / "again") == documents(folder)


@pytest.mark.skipif(HARBOR is None, reason="needs SWEET_RL_HARBOR_PYTHON: a Python 3.12 with harbor")
def test_harbor_takes_them_and_gives_them_back(folder, tmp_path):
    before = documents(folder)
    export(folder, tmp_path / "straight.jsonl", to="trajectories")
    command = [HARBOR, ROOT / "tests/integrations/harbor_check.py", folder]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    export(folder, tmp_path / "through.jsonl", to="trajectories")
    assert load_trajectories(tmp_path / "through.jsonl") == load_trajectories(tmp_path / "straight.jsonl")
    assert documents(folder) == before


@pytest.fixture
def trial(tmp_path):
    """A job of harbor's with one trial."""
    place = tmp_path / "job" / "look__x1Yz"
    for name in ("agent", "verifier"):
        (place / name).mkdir(parents=True)
    (place / "agent" / "trajectory.json").write_text(json.dumps(FOREIGN))
    (place / "verifier" / "reward.txt").write_text("0.25\n")
    (place / "config.json").write_text("{}")
    return tmp_path / "job"


def test_other_peoples_documents_are_read(trial, tmp_path):
    export(trial, tmp_path / "rows.jsonl", to="trajectories")
    (row,) = load_trajectories(tmp_path / "rows.jsonl")
    assert (row.key, row.reward, row.provenance["agent_model"]) == (("look", 0), 0.25, "a-model")
    assert row.task.problem_description == "What is in a.txt?\n[image: a.png]"
    call = '<tool_call>\n{"name": "run", "arguments": {"keys": "cat a.txt"}}\n</tool_call>'
    said = [(entry.role, entry.content) for entry in row.dialogue_history]
    told = ("user", row.task.problem_description), ("assistant", f"I look.\n{call}"), ("user", "blue")
    assert said == [*told, ("assistant", "Copied."), ("assistant", "It is blue.")]
    first, last = turns(row)  # what was copied as context is no turn
    assert (first.token_ids, first.logprobs, first.thoughts) == ((5, 6), (-0.5, -1.0), "cat it")
    assert first.input.startswith('[{"content":"You have a terminal.","role":"system"}')
    assert last.reward == 1.0


def test_other_peoples_documents_come_out_as_they_were(trial, tmp_path):
    export(trial, tmp_path / "rows.jsonl", to="trajectories")
    export(tmp_path / "rows.jsonl", tmp_path / "atif", to="atif")
    (path,) = (tmp_path / "atif").glob("*.atif.json")
    assert json.loads(path.read_text()) == FOREIGN | {"final_metrics": {"extra": {"reward": 0.25}}}


def test_credit_of_other_peoples_documents_goes_to_the_turns_that_a_model_wrote(trial, tmp_path):
    export(trial, tmp_path / "rows.jsonl", to="trajectories")
    found = load_trajectories(tmp_path / "rows.jsonl")
    said = [message for message in found[0].dialogue_history if message.role == "assistant"]
    rows = [
        {"task_id": "look", "sample_index": 0, "turn_index": place}
        | {"turn_digest": turn_digest(getattr(turn, "input", ""), getattr(turn, "output", ""))}
        | {"hidden": {"advantage": float(place)}}
        for place, turn in enumerate(
            said
        )  # as sweet-rl credit score numbers them: the copied message has a number
    ]
    replace_rows(tmp_path / "credit.jsonl", rows)
    export(tmp_path / "rows.jsonl", tmp_path / "atif", to="atif", credit=str(tmp_path / "credit.jsonl"))
    (path,) = (tmp_path / "atif").glob("*.atif.json")
    credit = [step.get("extra", {}).get("credit") for step in json.loads(path.read_text())["steps"]]
    assert [one and one["hidden"]["advantage"] for one in credit] == [None, None, 0.0, None, 2.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-40], "is not JSON"),
        (lambda text: text.replace('"agent", "message": "I look."', '"tool", "message": "I look."'), r"steps\[2\]' is no step"),
        (lambda text: text.replace('"message": "Copied.", ', ""), r"steps\[3\]' is no step"),
    ],
)  # fmt: skip
def test_a_torn_document_is_named(trial, tmp_path, change, words):
    (path,) = trial.rglob("trajectory.json")
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    with pytest.raises(DataError, match=words) as error:
        export(trial, tmp_path / "rows.jsonl", to="trajectories")
    assert str(path) in str(error.value)
    assert not (tmp_path / "rows.jsonl").exists()


def test_what_is_wrong_is_said(episodes, folder, tmp_path):
    rows = tmp_path / "rows.jsonl"
    with pytest.raises(UsageError, match="holds something already"):
        export(rows, folder, to="atif")
    shutil.copy(next(folder.glob("*.atif.json")), folder / "old.atif.json")
    export(rows, folder, to="atif", overwrite=True)
    assert len(list(folder.glob("*.atif.json"))) == len(episodes)
    with pytest.raises(UsageError, match="no ending"):
        export(rows, tmp_path / "a.json", to="atif")
    with pytest.raises(UsageError, match="--credit is written with --to atif"):
        export(rows, tmp_path / "a.eval", credit="credit.jsonl")
    (tmp_path / "other.json").write_text('{"schema_version": "2", "steps": []}')
    with pytest.raises(DataError, match="no ATIF trajectory"):
        export(tmp_path / "other.json", tmp_path / "b.jsonl", to="trajectories")
    scored = list(scores(episodes))
    replace_rows(tmp_path / "credit.jsonl", [scored[0] | {"task_id": "another"}])
    with pytest.raises(DataError, match="has no score of any of these turns"):
        export(rows, tmp_path / "more", to="atif", credit=str(tmp_path / "credit.jsonl"))
    assert not (tmp_path / "more").exists()
    replace_rows(tmp_path / "credit.jsonl", [scored[0] | {"turn_digest": "0" * 16}])
    with pytest.raises(DataError, match="another text"):
        export(rows, tmp_path / "more", to="atif", credit=str(tmp_path / "credit.jsonl"))
    assert not (tmp_path / "more").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no ATIF document"):
        export(tmp_path / "none", tmp_path / "b.jsonl", to="trajectories")
    assert not Path(tmp_path / "b.jsonl").exists()


def places(value, before=()):
    """The ways to the values in a document; of numbers in a list to the first."""
    of_numbers = isinstance(value, list) and not isinstance(value[0], dict)
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value[:1] if of_numbers else value)
    ):
        yield (*before, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*before, key))


def with_value(document, way, value):
    made = inner = json.loads(json.dumps(document))
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return made


@pytest.mark.parametrize("whose", ["another's", "ours"])
def test_a_document_with_a_value_of_another_type_is_read_or_named(folder, tmp_path, whose):
    document = ANOTHERS if whose == "another's" else next(iter(documents(folder).values()))
    path, refused = tmp_path / "one.json", 0
    for way in places(document):
        for value in (None, 5, "x", [], [1], {"a": 1}, True):
            path.write_text(json.dumps(with_value(document, way, value)))
            try:
                read = read_documents(path)
            except DataError as error:
                assert str(path) in str(error)
                refused += 1
            else:
                for one in read:
                    trajectory_from_row(json.loads(json.dumps(trajectory_to_row(one))))
    assert refused > 100


@pytest.mark.parametrize("value", ['{"reward": ', '{"reward": "much"}', "[]"])
def test_a_torn_reward_of_a_trial_is_named(tmp_path, value):
    trial = tmp_path / "job" / "task__1"
    for name in ("agent", "verifier"):
        (trial / name).mkdir(parents=True)
    document = {key: inner for key, inner in ANOTHERS.items() if key != "final_metrics"}
    (trial / "agent/trajectory.json").write_text(json.dumps(document))
    (trial / "verifier/reward.json").write_text(value)
    with pytest.raises(DataError, match=r"trajectory.json: is no ATIF trajectory"):
        read_documents(tmp_path / "job")


def test_rows_that_would_take_each_others_place_are_refused(episodes, tmp_path):
    rows = tmp_path / "rows.jsonl"
    replace_rows(rows, map(trajectory_to_row, [*episodes, episodes[0]]))
    for output, to in (("documents", "atif"), ("log.eval", "inspect")):
        with pytest.raises(DataError, match=r"is the same in 2 rows, got .* Export the file of each run"):
            export(rows, tmp_path / output, to=to)
