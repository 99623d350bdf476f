"""What a stage writes replaces nothing that nobody said to replace, and that is found out before any work."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.cli import load
from sweet_rl.commands.evaluation import check_outputs
from sweet_rl.commands.training_flags import TrainingFlags
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags.common import Evaluation
from sweet_rl.sft_data.jobs import JobFile

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
    pytest.importorskip("torch")
    from sweet_rl.training.settings import DataSettings, LossSettings, ModelSettings

    def settings(**flags):
        places = {"save_path": str(tmp_path / "model"), "ckpt_path": str(tmp_path / "model.checkpoints")}
        return TrainingFlags(**places, **flags).settings(
            DataSettings("d"), ModelSettings("m"), loss=LossSettings()
        )

    settings()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/metrics.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"metrics.jsonl' is there already.*--load_checkpoint"):
        settings()
    settings(load_checkpoint=True)  # killed before its first checkpoint
    (tmp_path / "model/config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"config.json' is there already.*--overwrite"):
        settings(load_checkpoint=True)
    settings(overwrite=True)
    checkpoint = tmp_path / "model.checkpoints/checkpoint-3"
    checkpoint.mkdir(parents=True)
    from sweet_rl.training.checkpoints import STATE

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
            folder.mkdir()
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


def test_results_of_another_teacher_are_not_replaced(tmp_path):
    output, journal = tmp_path / "data.json", tmp_path / "data.gpt.journal.jsonl"
    JobFile(journal, {}, output=output).__exit__()
    output.write_text("[1]")
    JobFile(journal, {}, output=output).__exit__()  # its own: it goes on
    with pytest.raises(UsageError, match=r"data\.json' exists already"):
        JobFile(tmp_path / "data.embedded.journal.jsonl", {}, output=output)
    assert not (tmp_path / "data.embedded.journal.jsonl").exists()


def test_copies_of_repositories_are_replaced_whole_or_not_at_all(tmp_path):
    (tmp_path / "in/a").mkdir(parents=True)
    (tmp_path / "in/a/code.py").write_text("x = 1\n" * 99)
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/a/stale.py").write_text("old")
    run = load("reflect filter_repo")
    with pytest.raises(UsageError, match="--overwrite"):
        run(str(tmp_path / "in"), output=str(tmp_path / "out"))
    run(str(tmp_path / "in"), output=str(tmp_path / "out"), overwrite=True)
    assert [path.name for path in (tmp_path / "out/a").iterdir()] == ["code.py"]
