"""What a stage writes replaces nothing that nobody said to replace; a command that is refused changes nothing at all."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweet_rl.cli import load
from sweet_rl.commands.evaluate import check_outputs
from sweet_rl.commands.train import replaces_nothing
from sweet_rl.errors import BudgetSpent, DataError, ServiceError, StorageError, UsageError
from sweet_rl.flags.shared import Evaluation
from sweet_rl.records import locked
from sweet_rl.runs.facts import read_record
from sweet_rl.training.checkpoints import STATE
from sweet_rl.training.settings import TrainSettings
from sweet_rl.users.server import start_server
from tests.conftest import called

STAGES = {
    "export_pairs": (["none.jsonl", "out"], {"tokenizer": "none"}, "out.jsonl"),
    "generate_random_pairs_from_ranks": (["none.jsonl", "out"], {}, "out.jsonl"),
    "picture_pairs": (["none.jsonl", "none.jsonl", "out"], {}, "out.jsonl"),
    "evaluate_code": (["none.jsonl"], {"preference_path": "out"}, "out.jsonl"),
    "evaluate_games": (["none.jsonl"], {"ground_truth_preference_path": "out"}, "out.jsonl"),
    "evaluate_html": (["none.jsonl"], {"preference_path": "out"}, "out.jsonl"),
    "judge_html": (["none.jsonl", "no.jsonl"], {"report_path": "out", "judge": "metrics"}, "out.jsonl"),
    "train_dpo": (["none", "none.jsonl"], {"save_path": "."}, "config.json"),
    "train_sft": (["none", "none.jsonl"], {"save_path": "."}, "config.json"),
    "train_reward_model": (["none", "none.jsonl"], {"save_path": "."}, "config.json"),
    "merge_adapters": (["none", "folder"], {}, "folder/config.json"),
    "generate_tasks": (["out"], {"source": "mini:none"}, "out.jsonl"),
    "view": (["none.jsonl"], {"export": "out.html"}, "out.html"),
    "visualize_dialogue_histories": (["none.jsonl"], {"export": "out.html"}, "out.html"),
    "visualize_design_dialogue_histories": (["none.jsonl"], {"export": "out.html"}, "out.html"),
    "reflect filter_task": (["none.json"], {"output": "out"}, "out.jsonl"),
    "reflect split_data": (["none.json"], {}, "validate.json"),
    "reflect plot": (["none"], {}, "visualization.png"),
    "reflect ensemble_logs": (["none"], {}, "none.json"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_output_that_exists_is_refused_before_anything_is_read(stage, tmp_path, monkeypatch):
    """Nothing that the stages read exists here: an error about an input says that reading had begun."""
    monkeypatch.chdir(tmp_path)
    words, flags, output = STAGES[stage]
    words = [word.replace("out", "out.jsonl") for word in words]
    flags = {name: "out.jsonl" if value == "out" else value for name, value in flags.items()}
    target = Path(output)
    target.parent.mkdir(exist_ok=True)
    target.write_text("precious")
    with pytest.raises(UsageError, match="--overwrite"):
        load(stage)(*words, **flags)
    assert target.read_text() == "precious"
    with pytest.raises((UsageError, DataError)) as raised:
        load(stage)(*words, **flags, overwrite=True)
    assert "--overwrite" not in str(raised.value)
    assert target.read_text() == "precious"


def test_a_report_of_the_same_file_is_brought_up_to_date_and_another_is_not(tmp_path):
    saved, report = str(tmp_path / "a.jsonl"), tmp_path / "r.json"
    report.write_text(json.dumps({"saved_path": saved}))
    flags = Evaluation(saved_path=saved, report_path=str(report))
    check_outputs(flags)
    for text in (json.dumps({"saved_path": str(tmp_path / "b.jsonl")}), "[]", "notes"):
        report.write_text(text)
        with pytest.raises(UsageError, match=r"r\.json' exists already. Pass --overwrite"):
            check_outputs(flags)
        check_outputs(replace(flags, overwrite=True))


def test_a_training_that_goes_on_may_write_where_it_wrote(tmp_path):
    def settings(**flags):
        places = {"save_path": str(tmp_path / "model"), "ckpt_path": str(tmp_path / "model.checkpoints")}
        replaces_nothing(TrainSettings(dataset="d", **places, **flags).resolved())

    settings()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/metrics.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"metrics.jsonl' exists already.*--load_checkpoint"):
        settings()
    settings(load_checkpoint=True)  # killed before its first checkpoint
    (tmp_path / "model/config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"config.json' exists already.*--overwrite"):
        settings(load_checkpoint=True)
    settings(overwrite=True)
    checkpoint = tmp_path / "model.checkpoints/checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / STATE).write_text("{}")
    settings(load_checkpoint=True)
    (tmp_path / "model/config.json").unlink()
    (tmp_path / "model/metrics.jsonl").unlink()
    settings()  # saves no checkpoints
    with pytest.raises(UsageError, match=r"holds checkpoint-3 of an earlier training.*--overwrite"):
        settings(save_steps=2)  # among later ones its own would count as the oldest
    settings(save_steps=2, overwrite=True)


def test_a_model_in_other_pieces_leaves_none_of_the_old_one(tmp_path):
    """transformers prefers one file to several: the old weights would be loaded in place of the new ones."""
    pytest.importorskip("torch")
    from sweet_rl.training.models import save_whole

    class Model:
        def save_pretrained(self, folder):
            folder.mkdir(exist_ok=True)
            for name in ("model-00001-of-00001.safetensors", "model.safetensors.index.json", "config.json"):
                (folder / name).write_text("new")

    class Tokenizer:
        def save_pretrained(self, folder):
            (folder / "tokenizer.json").write_text("new")

    (tmp_path / "model.safetensors").write_text("old")
    (tmp_path / "metrics.jsonl").write_text("kept")
    save_whole(Model(), Tokenizer(), tmp_path)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts.pop("metrics.jsonl") == "kept"
    assert "model.safetensors" not in texts
    assert set(texts.values()) == {"new"}


EVAL = {"model": "expert", "tasks": "mini:test", "num_tasks": 3, "quiet": True, "output_dir": "evaluated"}
PLAYED = {"agent_model": "expert", "env_model": "scripted", "num_tasks": 3, "quiet": True}
TRAINED = {"save_path": "trained", "overwrite": True, "device": "cpu"}
REFUSED = {
    "eval of another agent": ("eval", [], EVAL | {"model": "random"}),
    "eval with another human": ("eval", [], EVAL | {"env_model": "tests.commands.test_overwriting:Nobody"}),
    "eval of fewer tasks": ("eval", [], EVAL | {"num_tasks": 2}),
    "eval with bounds of other settings": ("eval", [], EVAL | {"bounds": "questioner"}),
    "eval, anew, of a model that is not there": ("eval", [], EVAL | {"model": "no/model", "overwrite": True}),
    "eval beside another one": ("eval", [], EVAL | {"num_tasks": 4}),
    "simulation with another seed": (
        "simulate_interactions", ["mini:test", "played.jsonl"], PLAYED | {"seed": 5, "to_continue": True}
    ),
    "simulation, anew, of a model that is not there": (
        "simulate_interactions", ["mini:test", "played.jsonl"], PLAYED | {"agent_model": "no/model", "overwrite": True}
    ),
    "simulation into a new folder": (
        "simulate_interactions", ["mini:test", "new/folder/played.jsonl"], PLAYED | {"agent_model": "no/model"}
    ),
    "grades in groups that there are not": ("evaluate_code", ["played.jsonl"], {"k": 2}),
    "grades by nobody": ("evaluate", ["played.jsonl"], {"grader": "nobody"}),
    "pairs where something is": ("evaluate_games", ["played.jsonl"], {"preference_path": "sampled.jsonl"}),
    "candidates, anew, of a model that is not there": (
        "sample_best_of_n", ["played.jsonl", "sampled.jsonl", "no/model"], {"overwrite": True, "quiet": True}
    ),
    "ranks, anew, by a model that is not there": (
        "rank_best_of_n", [], {"model_id": "no/model", "input_path": "rows.jsonl", "output_path": "ranked.jsonl",
                               "overwrite": True}
    ),
    "preferences by a model that is not there": ("train_dpo", ["no/model", "pairs.jsonl"], TRAINED),
    "a critic of a model that is not there": ("train_reward_model", ["no/model", "pairs.jsonl"], TRAINED),
    "imitation by a model that is not there": ("train_sft", ["no/model", "played.jsonl"], TRAINED),
    "imitation of another world's games": (
        "run_bc", ["cloned"], {"dataset": "played.jsonl", "overwrite": True, "quiet": True}
    ),
    "a pipeline that lacks its tasks": ("run", ["pipeline.yaml"], {}),
}  # fmt: skip


class Nobody:
    """A human of one's own."""

    name = "nobody"

    async def reply(self, context):
        raise NotImplementedError

    async def close(self):
        pass


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which everything has been made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        load("eval")(**EVAL)
        load("eval")(**EVAL, bounds="questioner")
        bound = folder / "evaluated/bounds/questioner.jsonl"
        bound.write_text(bound.read_text().replace('"seed": 0', '"seed": 7'))
        load("simulate_interactions")("mini:test", "played.jsonl", **PLAYED)
        load("evaluate_code")("played.jsonl")
    for name in ("sampled.jsonl", "ranked.jsonl"):
        (folder / name).write_text('{"precious": 1}\n{"torn')
    for name in ("trained/config.json", "cloned/policy/config.json", "cloned/critic/config.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    row = json.loads((folder / "played.jsonl").read_text().splitlines()[0])
    candidates = {"additional_outputs": ["a", "b"], "task_id": "a", "sample_index": 0, "turn": 0}
    (folder / "rows.jsonl").write_text(json.dumps(row | candidates) + "\n")
    sides = ("chosen", "rejected")
    talk = {one: [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": one}] for one in sides}
    (folder / "pairs.jsonl").write_text(json.dumps(talk) + "\n")
    flags = "agent_model: expert, input_path: none.jsonl, output_path: piped/a.jsonl"
    step = f"  a:\n    run: simulate_interactions\n    with: {{{flags}}}\n"
    (folder / "pipeline.yaml").write_text(f"folder: piped\nstages:\n{step}")
    (folder / "piped").mkdir()
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_changes_nothing(case, made, monkeypatch):
    monkeypatch.chdir(made)
    stage, words, flags = REFUSED[case]
    before = tree(made)
    with (
        pytest.raises((UsageError, DataError, StorageError)) as refused,
        locked("evaluated/episodes.jsonl" if "beside" in case else "other"),
    ):
        load(stage)(*words, **flags)
    assert tree(made) == before
    if stage == "eval" and "overwrite" not in flags and "beside" not in case:
        assert "--output_dir" in str(refused.value)


def test_evaluations_of_other_settings_do_not_meet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = {"model": "expert", "tasks": "mini:test", "num_tasks": 1, "quiet": True}
    changes = {"repeats": 2, "max_turns": 3, "seed": 1, "sample_ids": "2", "model": "constant"}
    for more in ({}, *({name: value} for name, value in changes.items())):
        load("eval")(**small | more)
    assert len(list((tmp_path / "evals").iterdir())) == 5  # more repeats are added to what is there


@pytest.fixture(scope="module")
def server():
    with start_server() as found:
        yield found


def asking(server, **more):
    """Flags with which agent and human are behind the server, one episode after the other."""
    return {
        "input_path": "mini:test", "output_path": "asked.jsonl", "agent": "openai", "agent_model": "echo", "agent_api": "chat",
        "agent_base_url": server.base_url, "env_base_url": server.base_url, "env_model": "scripted",
        "num_tasks": 4, "max_turns": 3, "batch_size": 1, "quiet": True,
    } | more  # fmt: skip


def used():
    rows = [
        row
        for models in read_record(Path("asked.jsonl.run.json"))["usage"].values()
        for row in models.values()
    ]
    counts = ("requests", "prompt_tokens", "completion_tokens")
    return {what: sum(row[what] or 0 for row in rows) for what in counts}


def typed(flags):
    """The simulation as a command."""
    return called("simulate_interactions", *(f"--{name}={value}" for name, value in flags.items()))


def test_a_budget_ends_a_run_that_a_larger_one_resumes(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulate = load("simulate_interactions")
    with pytest.raises(BudgetSpent, match=r"--max_requests 7: .* What was under way is dropped\. 1 of 4"):
        simulate(**asking(server, max_requests=7))
    record = read_record(tmp_path / "asked.jsonl.run.json")
    assert (record["status"], used()["requests"]) == ("interrupted", 7)
    first = (tmp_path / "asked.jsonl").read_text()
    assert first.count("\n") == 1
    with pytest.raises(BudgetSpent):  # what earlier sessions have used counts
        simulate(**asking(server, max_requests=7, to_continue=True))
    assert used()["requests"] == 7
    with pytest.raises(BudgetSpent, match="--max_total_tokens 1500: "):
        simulate(**asking(server, max_total_tokens=1500, to_continue=True))
    spent = used()
    assert 1500 <= spent["prompt_tokens"] + spent["completion_tokens"] < 2500
    prices = "[echo]\ninput = 1000\noutput = 1000\n[scripted]\ninput = 0\noutput = 0\n"
    (tmp_path / "prices.toml").write_text(prices)
    with pytest.raises(BudgetSpent, match=r"--max_cost 0\.5: the run has used"):
        simulate(**asking(server, max_cost=0.5, prices="prices.toml", to_continue=True))
    simulate(**asking(server, max_requests=100, to_continue=True))
    assert (tmp_path / "asked.jsonl").read_text().startswith(first)
    assert (tmp_path / "asked.jsonl").read_text().count("\n") == 4


def test_a_budget_counts_what_is_sent_again_and_the_exit_status_says_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with start_server(fault_rate=1.0, faults="server_error", seed=1) as server:
        done = typed(asking(server, max_requests=5))
    assert (done.returncode, "--max_requests 5" in done.stderr) == (3, True), done.stderr
    record = read_record(tmp_path / "asked.jsonl.run.json")
    (row,) = record["usage"]["agent"].values()
    assert (row["requests"], row["replies"]) == (5, 0)


@pytest.mark.parametrize("known", ["", "[echo]\ninput = 1\noutput = 1\n"])
def test_dollars_without_prices_are_refused(known, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.toml").write_text(known)
    with pytest.raises(UsageError, match="--max_cost needs --prices"):
        load("simulate_interactions")(**asking(server, max_cost=1.0))
    unknown = "--max_cost needs the price of 'scripted'" if known else "price of 'echo'"
    with pytest.raises(UsageError, match=unknown):
        load("simulate_interactions")(**asking(server, max_cost=1.0, prices="prices.toml"))
    assert [path.name for path in tmp_path.iterdir()] == ["prices.toml"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"env_model": "tests.commands.test_overwriting:Nobody"}, "offers no model of that name .it offers"),
        ({"env_model": "embedded", "world": "twenty_questions", "input_path": "twenty-questions:ten"}, "Leave one of them out"),
        ({"env_model": "scripted", "world": "twenty_questions", "input_path": "twenty-questions:ten"}, "Leave one of them out"),
    ],
)  # fmt: skip
def test_who_answers_here_is_asked_for_at_no_server(flags, says, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        load("simulate_interactions")(**asking(server, **flags))
    assert list(tmp_path.iterdir()) == []


def test_secrets_in_addresses_are_used_and_neither_stored_nor_shown(tmp_path, monkeypatch):
    """Nothing answers there: whatever is said and stored about the address is without them."""
    monkeypatch.chdir(tmp_path)
    hidden = ("AbCd1234efgh5678", "hunter22", "sk-path1")
    url = f"http://127.0.0.1:9/{hidden[2]}/v1?key={hidden[0]}&api-key={hidden[1]}&api-version=2024-10-21"
    flags = {"request_attempts": 1, "server_wait_s": 0, "env_base_url": None, "log_to": "tensorboard"}
    done = typed(asking(SimpleNamespace(base_url=url), **flags))
    assert done.returncode == 1
    written = (path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())
    seen = "".join([done.stdout, done.stderr, *written])
    assert "127.0.0.1:9/[secret]/v1?key=[secret]&api-key=[secret]&api-version=2024-10-21" in seen
    assert not [word for word in hidden if word in seen]
    record = read_record(tmp_path / "asked.jsonl.run.json")
    assert record["settings"]["agent_base_url"].endswith("&api-version=2024-10-21")


def test_how_many_tasks_are_left_out_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load("generate_tasks")("tasks.jsonl", num_tasks=12)

    def said(count):
        capsys.readouterr()
        load("simulate_interactions")("tasks.jsonl", f"{count}.jsonl", **PLAYED | {"num_tasks": count})
        return capsys.readouterr().out

    assert "2 of 12 tasks of tasks.jsonl are played (--num_tasks)." in said(2)
    assert "are played" not in said(12)
    assert "tasks.jsonl has 12 tasks, all of which are played once (--num_tasks 40)." in said(40)


def test_a_server_that_is_not_there_leaves_what_was_played(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "played.jsonl").write_bytes((made / "played.jsonl").read_bytes())
    nowhere = {"env_base_url": "http://127.0.0.1:9/v1", "env_model": "auto", "request_attempts": 1}
    nowhere["server_wait_s"] = 0
    with pytest.raises(ServiceError, match="No server answers"):
        load("simulate_interactions")("mini:test", "played.jsonl", **PLAYED | nowhere, overwrite=True)
    assert (tmp_path / "played.jsonl").read_bytes() == (made / "played.jsonl").read_bytes()
