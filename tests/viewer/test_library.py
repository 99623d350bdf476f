"""Files and folders looked at together: what each is, and what belongs to a trajectory."""

import json

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.viewer.library import Library, read_metrics
from tests.viewer.samples import sample_rows, write_rows


def turns_of(row):
    return [message for message in row["dialogue_history"] if message["role"] == "assistant"]


def identity(row, turn):
    return {"task_id": row["task_id"], "sample_index": row["sample_index"], "turn_index": turn}


def scored(row, turn, advantage, **more):
    own = turns_of(row)[turn]
    digest = turn_digest(own["input"], own["output"])
    view = {"advantage": advantage, "critic": -1.0, "reference": -1.0 - advantage}
    made = {"critic": "runs/critic", "credit": {"critic": "sha256:abc"}}
    return identity(row, turn) | {"turn_digest": digest, "hidden": view} | made | more


def ranked(row, turn, scores, **more):
    own = turns_of(row)[turn]
    texts = [f"other {number}" for number in range(len(scores))]
    asked = {"input": own["input"], "ground_truth": "g", "older_output": own["output"], "messages": []}
    return identity(row, turn) | asked | {"additional_outputs": texts, "judge_result": scores} | more


@pytest.fixture
def run(tmp_path):
    """A folder as runs leave them."""
    rows = sample_rows()
    write_rows(tmp_path / "a.jsonl", rows)
    write_rows(tmp_path / "a.credit.critic.jsonl", [scored(rows[0], 0, 0.5), scored(rows[0], 1, -0.25)])
    turns = [ranked(rows[0], 1, [0.5, None]), ranked(rows[0], 0, [1.0], input="x")]
    write_rows(tmp_path / "ranked.jsonl", turns)
    write_rows(tmp_path / "pairs.jsonl", [{"prompt": "P", "chosen": "c<|eot_id|>", "rejected": "r"}])
    (tmp_path / "policy").mkdir()
    write_rows(tmp_path / "policy" / "metrics.jsonl", [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}])
    (tmp_path / "policy" / "report.json").write_text("{}")
    for folder, stage in ((tmp_path, "demo"), (tmp_path / "policy", "train_dpo")):
        about = {"id": stage, "stage": stage, "status": "finished", "sessions": [], "usage": {}}
        (folder / "run.json").write_text(json.dumps(about))
    (tmp_path / "a.report.json").write_text('{"columns": {"fixed": {"success": 0.5}}}')
    (tmp_path / "notes.jsonl").write_text('{"note": 1}\n')
    return tmp_path


def opened(*paths):
    library = Library(paths)
    for one in library.files:
        one.bring_up()
    return library, {one.name: one for one in library.files}


def test_a_folder_is_what_its_files_hold(run):
    library, files = opened(run)
    kinds = {"a.jsonl": "code", "a.credit.critic.jsonl": "credit"}
    kinds |= {"ranked.jsonl": "turns", "pairs.jsonl": "pairs"}
    kinds |= {"policy/metrics.jsonl": "metrics", "policy/report.json": "report", "policy/run.json": "record"}
    kinds |= {"a.report.json": "report", "run.json": "record"}
    assert {name: one.kind for name, one in files.items()} == kinds
    described = {one["name"]: one for one in library.listing()}
    assert described["run.json"]["record"]["stage"] == "demo"
    assert described["a.jsonl"]["record"]["stage"] == "demo"  # of the folder that it is in
    assert described["policy/metrics.jsonl"]["record"]["stage"] == "train_dpo"
    assert files["policy/metrics.jsonl"].document()["curves"] == {"loss": [(1, 0.5), (2, 0.25)]}
    assert files["a.report.json"].document()["columns"]["fixed"] == {"success": 0.5}
    pairs = json.loads(files["pairs.jsonl"].listing())
    assert pairs["columns"]["stop"] == ["pair"]
    assert [task["summary"] for task in pairs["tasks"]] == ["c ↔ r"]  # without the marks of a chat template


def test_scores_and_alternatives_stand_with_their_turns(run):
    _, files = opened(run)
    shown = files["a.jsonl"].row(0)
    (scores,) = shown["credit"]
    assert scores["file"] == "a.credit.critic.jsonl"
    assert [scores["turns"][turn]["hidden"]["advantage"] for turn in ("0", "1")] == [0.5, -0.25]
    assert scores["made"] == {"critic": "sha256:abc"}
    assert list(shown["alternatives"]) == ["1"]  # the other row is of another prompt
    assert [one["score"] for one in shown["alternatives"]["1"]["candidates"]] == [0.5, None]
    assert shown["told"].startswith("In light that the final answer is: def shipping_fee")
    assert files["a.jsonl"].row(1)["credit"] == []


def test_what_turns_were_worth_and_what_methods_say_stand_with_them(run):
    row, worth = sample_rows()[0], {"advantage": 0.2, "low": 0.1, "high": 0.3}
    settings = {"measure": "reward", "target_error": 0.1}
    bare = {
        name: value
        for name, value in scored(row, 0, 0.5).items()
        if name not in {"hidden", "critic", "credit"}
    }
    write_rows(run / "a.measured.jsonl", [bare | {"measured": worth, "settings": settings}])
    write_rows(
        run / "a.credit.methods.jsonl", [bare | {"scores": {"MT-GRPO": None}, "why": {"MT-GRPO": "no"}}]
    )
    _, files = opened(run / "a.jsonl")
    assert files["a.measured.jsonl"].kind == "credit"
    told = {one["file"]: one for one in files["a.jsonl"].row(0)["credit"]}
    assert told["a.measured.jsonl"]["turns"] == {"0": {"measured": worth}}
    assert told["a.measured.jsonl"]["settings"] == settings
    assert told["a.credit.methods.jsonl"]["turns"]["0"] == {
        "scores": {"MT-GRPO": None},
        "why": {"MT-GRPO": "no"},
    }
    (run / "ab.jsonl").write_bytes((run / "a.jsonl").read_bytes())
    assert not opened(run)[1]["ab.jsonl"].row(0)["credit"]


def test_scores_go_with_the_file_beside_them_and_with_no_other_of_its_name(run, tmp_path):
    (run / "other").mkdir()
    write_rows(run / "other/a.jsonl", sample_rows())  # the same turns: a digest does not tell them apart
    _, files = opened(run)
    assert files["a.jsonl"].row(0)["credit"]
    assert not files["other/a.jsonl"].row(0).get("credit")
    (run / "a.credit.critic.jsonl").rename(run / "policy" / "a.credit.critic.jsonl")
    _, files = opened(run)  # beside none of them: of both
    assert files["a.jsonl"].row(0)["credit"]
    assert files["other/a.jsonl"].row(0)["credit"]


def test_what_credit_has_begun_is_no_file_of_dialogues(run):
    (run / "a.credit.other.jsonl").write_text("")
    assert opened(run)[1]["a.credit.other.jsonl"].kind == "credit"


@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
def test_a_repeat_that_no_index_can_count_is_told_and_passed_over(run, number):
    row, other = sample_rows()[:2]
    for name, rows in (
        ("a.jsonl", [row, other | {"sample_index": number}]),
        ("ranked.jsonl", [ranked(row, 0, [1.0]), ranked(row, 1, [1.0], sample_index=number)]),
        ("a.credit.critic.jsonl", [scored(row, 0, 0.5), scored(row, 1, 0.5, sample_index=number)]),
    ):
        write_rows(run / name, rows)
        assert [line for line, _ in opened(run / name)[1][name].index.broken] == [2], name


def test_a_score_of_another_text_is_counted_and_not_shown(run):
    rows = sample_rows()
    other = [scored(rows[0], 0, 0.5, turn_digest="0" * 16), scored(rows[0], 1, 0.1)]
    write_rows(run / "a.credit.critic.jsonl", other)
    _, files = opened(run)
    (scores,) = files["a.jsonl"].row(0)["credit"]
    assert (list(scores["turns"]), scores["other"]) == (["1"], 1)


def test_the_same_file_twice_is_one_and_two_are_called_by_what_differs(run):
    (run / "b").mkdir()
    write_rows(run / "b" / "a.jsonl", sample_rows())
    _, files = opened(run / "a.jsonl", run / "a.jsonl", run / "b")
    assert {"a.jsonl", "b/a.jsonl"} <= set(files)
    assert len(files) == 3  # with the scores


def test_a_file_alone_finds_its_scores_and_published_rows_have_the_repeats_that_they_are_listed_by(run):
    _, files = opened(run / "a.jsonl")
    assert files["a.jsonl"].row(0)["credit"][0]["critic"] == "runs/critic"
    listed = json.loads(files["a.jsonl"].listing())["columns"]
    assert [files["a.jsonl"].row(position)["repeat"] for position in range(9)] == listed["repeat"]


def test_what_is_nothing_is_named(run, tmp_path):
    (tmp_path / "empty").mkdir()
    nothing = r"notes\.jsonl' is nothing that is shown here"
    for name, words in (("notes.jsonl", nothing), ("none", "There is no file"), ("empty", "can be shown")):
        with pytest.raises(UsageError, match=words):
            Library([tmp_path / name])


def test_metrics_of_a_run_that_writes_just_now_and_of_many_rows(tmp_path):
    path = tmp_path / "metrics.jsonl"
    torn = '{"iteration": 4, "pl'
    path.write_text('{"iteration": 3, "play": {"reward": 1.5}, "note": "x", "on": true}\n' + torn)
    assert read_metrics(path) == {"rows": 1, "every": 1, "curves": {"play.reward": [(3, 1.5)]}}
    write_rows(path, [{"step": step, "loss": 0.0} for step in range(4001)])
    found = read_metrics(path)
    assert (found["rows"], found["every"], len(found["curves"]["loss"])) == (4001, 3, 1334)


PUBLISHED_FILES = {
    "a_evaluate/trajectories.jsonl": ("code", 52),
    "b_pairs/trajectories_k3.jsonl": ("code", 36),
    "b_pairs/expected_ground_truth_preferences.jsonl": ("pairs", 14),
    "c_environment/loop_expected.jsonl": ("code", 6),
    "d_sampling/expected_sampled.jsonl": ("turns", 7),
    "d_sampling/expected_ranked_ground_truth_mean.jsonl": ("turns", 7),
    "e_dpo/pairs_with_prompt.jsonl": ("pairs", 6),
    "g_html_eval/expected_preferences.jsonl": ("pairs", 9),
}


@pytest.mark.parametrize("name", PUBLISHED_FILES)
def test_files_as_the_published_code_writes_them_open(shared, tmp_path, name):
    saved = tmp_path / name.rpartition("/")[2]
    saved.write_bytes((shared / "goldens/sweet_rl" / name).read_bytes())
    library, _ = opened(saved)
    (one,) = library.files
    assert (one.kind, len(one.index), one.index.broken) == (*PUBLISHED_FILES[name], [])
    assert one.row(0)["task_id"] == json.loads(one.listing())["tasks"][0]["id"]
