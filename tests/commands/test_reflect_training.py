"""The stages that train and measure Reflect-RL's models, one after the other."""

import json

import pytest
import yaml

from sweet_rl.cli import load
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.online.reflect import models
from sweet_rl.online.reflect.settings import (
    ReflectSettings,
    check,
    continued,
    next_experiment,
    read_settings,
    with_saved,
)
from sweet_rl.types import Failure, StopReason
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame

TAXI = {
    "env": "taxi", "taxi_curriculum": True, "curriculum_index": 0, "horizon": 3, "device": "cpu",
    "use_8bit": False, "quiet": True, "lora_r": 2, "target_modules": "all-linear",
    "per_device_eval_batch_size": 4, "reflect_max_new_tokens": 4,
}  # fmt: skip


def rows(path, texts):
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return str(path)


def test_from_texts_to_success_rates(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    policy = rows(tmp_path / "p.jsonl", [f"a {n} # Action:\n{n}" for n in range(6)])
    reflection = rows(tmp_path / "r.jsonl", [f"a {n} # Analyze:\ngo on {n}" for n in range(6)])
    steps = {"max_steps": 2, "save_steps": 2, "model_name": "tiny"}
    load("reflect supervised_pretrain")(task_file=policy, **TAXI | steps)
    load("reflect supervised_pretrain")(task_file=reflection, reflect=True, **TAXI | steps)
    first, second = (f"results/00{n}_supervised_pretrain/checkpoint-2" for n in range(2))
    load("reflect rl_finetune")(
        load_dir=first,
        reflect=True,
        reflect_load_dir=second,  # whose run says on which model it was trained
        max_steps=2,
        save_steps=1,
        **TAXI,
    )
    run = tmp_path / "results/002_rl_finetune"
    assert (run / "checkpoint-2/logs.json").is_file()
    assert "model_name: results/000_supervised_pretrain/tiny" in (run / "setting.yml").read_text()
    load("reflect rl_finetune")(resume=str(run), max_steps=3, quiet=True)
    assert (run / "checkpoint-3").is_dir()
    with pytest.raises(UsageError, match="--max_turns was 3, is 7"):
        load("reflect rl_finetune")(resume=str(run), horizon=7)
    with pytest.raises(UsageError, match="--reflect was True, is False"):  # its default
        load("reflect rl_finetune")(resume=str(run), reflect=False)
    capsys.readouterr()

    load("reflect evaluate")(f"{run}/checkpoint-3+{second}", first, report="report.json", eval_reps=2, **TAXI)
    printed = capsys.readouterr().out
    assert printed.count("pickup: success") == 2
    measured = json.loads((tmp_path / "report.json").read_text())["checkpoints"]
    assert [one["levels"][0]["episodes"] for one in measured] == [8, 8]
    assert measured[0]["settings"]["reflect"]
    assert not measured[1]["settings"]["reflect"]
    level = measured[0]["levels"][0]
    assert 0 <= level["low"] <= level["success"] <= level["high"] <= 1
    with pytest.raises(UsageError, match="exists"):
        load("reflect evaluate")(first, report="report.json", **TAXI)
    load("reflect evaluate")(f"{first}+{second}", report="swap.json", swap_reflections=True, **TAXI)
    assert "every state with the reflection of another" in capsys.readouterr().out
    (swapped,) = json.loads((tmp_path / "swap.json").read_text())["checkpoints"]
    assert swapped["settings"]["swap_reflections"]
    with pytest.raises(UsageError, match=r"--swap_reflections: .* has no reflection model"):
        load("reflect evaluate")(first, swap_reflections=True, **TAXI)


def test_a_pointing_head_from_texts_to_success_rates(tmp_path, monkeypatch):
    """Asked for once: what was trained with it is read with it."""
    monkeypatch.chdir(tmp_path)
    state = (
        "a {n}\nThe actions you can take now is:\nAction 0: move south\nAction 1: move north\n # Action:\n{n}"
    )
    texts = rows(tmp_path / "p.jsonl", [state.format(n=n % 2) for n in range(6)])
    steps = {"max_steps": 2, "save_steps": 2}
    load("reflect supervised_pretrain")(
        task_file=texts, pointing_head=True, model_name="tiny", **TAXI | steps
    )
    first = "results/000_supervised_pretrain/checkpoint-2"
    load("reflect rl_finetune")(load_dir=first, **TAXI | steps)
    run = tmp_path / "results/001_rl_finetune"
    assert "pointing_head: true" in (run / "setting.yml").read_text()
    load("reflect rl_finetune")(resume=str(run), max_steps=3, quiet=True)
    for checkpoint in (tmp_path / first, run / "checkpoint-3"):
        assert (checkpoint / "pointing_head.safetensors").is_file()
    load("reflect evaluate")(f"{run}/checkpoint-3", report="report.json", eval_reps=1, **TAXI)
    (measured,) = json.loads((tmp_path / "report.json").read_text())["checkpoints"]
    assert measured["settings"]["pointing_head"]
    with pytest.raises(UsageError, match="--pointing_head scores the commands"):
        load("reflect rl_finetune")(env="guess_my_city", model_name="tiny", pointing_head=True, quiet=True)


def test_ceiling_and_floors_are_measured_beside_checkpoints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = "a\nThe actions you can take now is:\nAction 0: move south\nAction 1: move north\n # Action:\n{n}"
    texts = rows(tmp_path / "p.jsonl", [state.format(n=n % 2) for n in range(6)])
    evaluate = load("reflect evaluate")
    told = TAXI | {"horizon": 20, "eval_reps": 3}
    evaluate("agent:planner", "agent:random", f"linear:{texts}", report="report.json", **told)
    measured = json.loads((tmp_path / "report.json").read_text())["checkpoints"]
    assert [one["checkpoint"] for one in measured] == ["agent:planner", "agent:random", f"linear:{texts}"]
    assert measured[0]["levels"][0]["success"] == 1.0
    with pytest.raises(UsageError, match="There is no agent 'planer'"):
        evaluate("agent:planer", **told)
    with pytest.raises(UsageError, match="does not read reflections"):
        evaluate("agent:planner+base", **told)
    with pytest.raises(UsageError, match="is no file"):
        evaluate("linear:nowhere.jsonl", **told)
    with pytest.raises(UsageError, match="guess_my_city has none"):
        evaluate(f"linear:{texts}", env="guess_my_city")


def test_numbers_of_runs(tmp_path, shared):
    recorded = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["exp_id"]
    assert next_experiment(tmp_path / "r", "x").name == f"{recorded['empty']}_x"
    for name in ("007_rl_finetune", "foo"):
        (tmp_path / "r" / name).mkdir()
    assert next_experiment(tmp_path / "r", "x").name == f"{recorded['after_007_and_foo']}_x"
    (tmp_path / "r/1000_x").mkdir()
    assert next_experiment(tmp_path / "r", "x").name == "1001_x"


def test_what_a_run_takes_over(tmp_path, shared):
    case = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["load_script_args"]
    (tmp_path / "setting.yml").write_text(yaml.safe_dump(case["saved"]))
    found = with_saved(ReflectSettings(), str(tmp_path / "checkpoint-1"))
    assert {name: getattr(found, name) for name in case["loaded"]} == case["loaded"]
    assert with_saved(ReflectSettings(), str(tmp_path / "x" / "checkpoint-1")) == ReflectSettings()


def made(folder, **settings):
    """A checkpoint that cannot be loaded, but says what it is."""
    checkpoint = folder / "checkpoint-7"
    checkpoint.mkdir(parents=True)
    (checkpoint / "adapter_config.json").write_text("{}")
    (folder / "setting.yml").write_text(yaml.safe_dump(settings))
    return str(checkpoint)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"load_dir": "nowhere"}, "no adapter_config.json"),
        ({"load_dir": "results/000_policy"}, "has checkpoint-7; name one of these"),
        ({"load_dir": "results/000_policy/checkpoint-9"}, "has checkpoint-7; name one of these"),
        ({"load_dir": "results/001_reflection/checkpoint-7"}, "is a reflection model's checkpoint"),
        (
            {"reflect": True, "reflect_load_dir": "results/000_policy/checkpoint-7"},
            "is a policy's checkpoint",
        ),
        (
            {"reflect": False, "reflect_load_dir": "results/001_reflection/checkpoint-7"},
            "--noreflect contradicts",
        ),
        ({"model_name": "./no/such/model"}, "No tokenizer could be loaded"),
        ({"use_4bit": True, "model_name": "tiny"}, "needs a CUDA device"),
        ({"resume": "results/0"}, "no run's folder"),
        ({"trainer": "ppo", "model_name": "tiny"}, "needs a critic"),
        ({"env": "auto_explore", "task_file": "data/train.json"}, "`sweet-rl reflect split_data` writes it"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "results/000_policy", mode="train_SPT", reflect=False)
    made(tmp_path / "results/001_reflection", mode="train_SPT", reflect=True)
    with pytest.raises(UsageError, match=message):
        told = TAXI | {"max_steps": 1} | flags
        if told["env"] != "taxi":
            del told["taxi_curriculum"]
        load("reflect rl_finetune")(**told)
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["000_policy", "001_reflection"]


def test_a_world_that_breaks_every_episode_gives_no_result(tmp_path, monkeypatch, capsys):
    def broken(*_, **__):
        raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad", "no such world"))

    monkeypatch.setattr(TaxiGame, "step", broken)
    report = tmp_path / "report.json"
    with pytest.raises(ServiceError, match="All episodes of"):
        load("reflect evaluate")("agent:planner", report=str(report), **TAXI | {"eval_reps": 1})
    (level,) = json.loads(report.read_text())["checkpoints"][0]["levels"][:1]
    assert level["success"] is None
    assert "no such world" in level["why"]
    assert "not measured" in capsys.readouterr().out


def test_a_run_is_known_before_its_models_are_loaded_and_remembers_what_was_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, known, load_policy = tmp_path / "results/000_rl_finetune", [], models.load_policy

    def loading(*arguments, **more):
        known.append((run / "run.json").exists())
        return load_policy(*arguments, **more)

    monkeypatch.setattr(models, "load_policy", loading)
    told = TAXI | {"model_name": "tiny", "max_steps": 1, "save_steps": 1, "ckpt_path": "results/"}
    load("reflect rl_finetune")(**told)
    load("reflect rl_finetune")(resume=str(run), env="taxi", max_steps=2)
    assert known == [True, True]
    assert read_settings(run)["max_steps"] == 2
    assert (run / "checkpoint-2").is_dir()


def test_texts_that_are_missing_or_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.json").write_text("[]")
    train = load("reflect supervised_pretrain")
    with pytest.raises(UsageError, match="`sweet-rl reflect taxi_gen_sft` writes it"):
        train(task_file="data/taxi/sft_policy.jsonl")
    with pytest.raises(UsageError, match="holds records, not texts"):
        train(task_file="records.json")
    texts = rows(tmp_path / "p.jsonl", ["a # Action:\n1"])
    with pytest.raises(UsageError, match="is no checkpoint"):
        train(task_file=texts, load_dir="nowhere")
    with pytest.raises(UsageError, match="--optim must be"):
        train(task_file=texts, model_name="tiny", optim="sgd", **TAXI)
    assert not list((tmp_path / "results").iterdir())


@pytest.mark.parametrize("cut", [{"top_k": 5}, {"top_p": 0.9}])
def test_ppo_compares_probabilities_before_anything_is_cut_off(cut):
    ppo = {"env": "taxi", "trainer": "ppo", "use_critic": True, "shared_critic": True, "mode": "train_RLFT"}
    check(ReflectSettings(**ppo, top_k=0))
    check(ReflectSettings(**ppo, **cut, compat="published"))
    check(ReflectSettings(**ppo | {"trainer": "pg"}, **cut))
    with pytest.raises(UsageError, match="--trainer ppo compares"):
        check(ReflectSettings(**ppo, **cut))


def test_runs_are_found_from_other_working_folders(tmp_path, monkeypatch):
    results = tmp_path / "moved" / "results"
    names = {
        "model_name": "results/000_x/tiny",
        "reflect_model_name": "org/name",
        "load_dir": "results/000_x/c",
    }
    checkpoint = made(results / "001_x", **names)
    for name in ("tiny", "c"):
        (results / "000_x" / name).mkdir(parents=True)
    assert with_saved(ReflectSettings(), checkpoint).model_name == str(results / "000_x/tiny")
    found = continued(results / "001_x", ReflectSettings(), ())
    assert found.load_dir == str(results / "000_x/c")
    assert found.reflect_model_name == "org/name"
    monkeypatch.chdir(tmp_path / "moved")
    assert with_saved(ReflectSettings(), checkpoint).model_name == "results/000_x/tiny"
