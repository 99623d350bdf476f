"""Pipeline files: what they say, and what is wrong with them, by line."""

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.pipelines.pipeline import build, laid_over, override, read_file
from sweet_rl.pipelines.preflight import needed
from sweet_rl.pipelines.running import plan
from tests.conftest import ROOT

TASKS = "  tasks:\n    run: generate_tasks\n    with:\n      output_path: ${folder}/t.jsonl\n"


@pytest.fixture
def steps(tmp_path):
    """Steps of a text, by name."""

    def built(text, *said):
        (tmp_path / "p.yaml").write_text(text)
        tree = read_file(tmp_path / "p.yaml")
        for one in said:
            override(tree, one)
        return {step.name: step for step in build(tree).steps}

    return built


S = "folder: out\nstages:\n"
T = S + TASKS
TRAINS = S + "  critic:\n    run: train_dpo\n    with:\n      pretrain: m\n      dataset: d\n"
TALKS = (
    S
    + "  talks:\n    run: simulate_interactions\n    with:\n      input_path: mini:test\n      output_path: o\n"
)
SEED = "folder: out\ndefaults:\n  generate_tasks:\n    sed: 3\nstages:\n" + TASKS
VALUE = "folder: out\nvalues: {number: 3}\nstages:\n" + TASKS + "      num_tasks: ${values.numbr}\n"
CIRCLE = (
    "folder: out\nvalues:\n  a: ${values.b}\n  b: ${values.a}\nstages:\n"
    + TASKS
    + "      source: ${values.a}\n"
)
NEED = "  {0}:\n    run: generate_tasks\n    needs: {1}\n    with: {{output_path: {0}}}\n"
WRONG = [
    ("", r"p\.yaml must be a mapping .* is empty"),
    ("folder: [a\nstages: b\n", r"p\.yaml is not YAML: .* line 2"),
    ("stages:\n" + TASKS, r"line 1: a pipeline needs 'folder'"),
    ("folder: out\nstage:\n" + TASKS, r"line 2: a pipeline has no 'stage' \(did you mean stages\?\)"),
    ("folder: a\nvalues: {}\nfolder: b\n", r"line 3: 'folder' is defined twice"),
    (S + "  tasks:\n    run: generate_task\n", r"line 4: .* 'generate_task' to run \(did you mean generate_tasks\?\)"),
    (S + "  tasks:\n    runs: generate_tasks\n", r"line 4: the stage 'tasks' has no 'runs' \(did you mean run\?\)"),
    (S + "  tasks: {}\n", r"line 3: the stage 'tasks' needs `run`"),
    (T + "      num_task: 3\n", r"line 7: stage tasks \(generate_tasks\): .*--num_task \(did you mean --num_tasks\?\)"),
    (T + "      num_tasks: some\n", r"line 7: .*--num_tasks must be a whole number, got 'some'"),
    (TRAINS + "      beta: -1\n", r"line 8: stage critic \(train_dpo\): --beta must be positive"),
    (TRAINS + "      ring_attn_size: 2\n", r"line 8: .*--ring_attn_size is not there"),
    (TALKS + "      skill: 0.5\n      agent_model: questioner\n", r"line 8: .*--skill belongs to"),
    (SEED, r"line 4: stage tasks .*unknown flag --sed \(did you mean --seed\?\)"),
    (S + "  tasks:\n    run: generate_tasks\n", r"line 3: .*--output_path is needed"),
    (VALUE, r"line 8: Interpolation key 'values.numbr' not found \(did you mean number\?\)"),
    (T + "      source: ${task.output_path}\n", r"line 7: Interpolation key 'task.output_path' not found"),
    (T + "  more:\n    run: generate_tasks\n    with: {output_path: '${tasks.out}'}\n", r"line 9: Interpolation key 'tasks.out' not found"),
    (CIRCLE, r"line 3: Recursive interpolation detected"),
    (S + NEED.format("a", "b") + NEED.format("b", "a"), r"These stages depend on each other: a, b"),
    ("folder: out\niterations: 2\nstages:\n" + TASKS, r"line 2: more than one iteration needs `next`"),
    (T + '    args: "--seed \'3"\n', r"line 7: a quote is open"),
    ("extends: q.yaml\nfolder: out\n", r"line 1: extends 'q.yaml', and there is no file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_what_is_wrong_is_said_with_its_line(steps, text, words):
    with pytest.raises(UsageError, match=words):
        steps(text)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("values.modl=x", r"--set values.modl=x: There is no value 'modl' \(did you mean model\?\)"),
        ("stages.task.with.seed=1", r"There is no stage 'task' \(did you mean tasks\?\)"),
        ("stages.tasks.with.sed=1", r"--set stages.tasks.with.sed=1: stage tasks .*did you mean --seed"),
        ("folder", r"write NAME=VALUE"),
    ],
)
def test_what_is_wrong_with_an_override_is_said_as_it_was_typed(steps, said, words):
    with pytest.raises(UsageError, match=words):
        steps("folder: out\nvalues: {model: a}\nstages:\n" + TASKS, said)


def test_values_stay_what_was_written_until_a_flag_reads_them(steps):
    text = (
        "folder: out\nvalues: {rate: 2e-7, nothing: null}\nstages:\n  critic:\n    run: train_dpo\n"
        "    with:\n      pretrain: a/${values.rate}\n      dataset: [one.jsonl, two.jsonl]\n      bf16: yes\n"
        "      learning_rate: ${values.rate}\n      ckpt_path: ${values.nothing}\n      use_wandb: ${values.nothing}\n"
        "    args: --beta 0.3 --nll_loss_coef 0.5\n"
    )
    flags = steps(text)["critic"].flags
    assert flags["pretrain"] == "a/2e-7"
    numbers = {"learning_rate": 2e-7, "bf16": True, "beta": 0.3, "nll_loss_coef": 0.5}
    assert flags.items() >= numbers.items()
    assert flags["dataset"] == "one.jsonl,two.jsonl"
    assert "use_wandb" not in flags


def test_what_is_empty_can_be_set(steps):
    text = "folder: out\nstages:\n  a:\n    run: generate_tasks\n    with: {}\n"
    flags = steps(text, "stages.a.with.output_path=t.jsonl", "defaults.generate_tasks.seed=3")["a"].flags
    assert flags == {"seed": 3, "output_path": "t.jsonl"}


def test_checkpoints_lie_beside_the_model_that_they_are_of(steps):
    text = "folder: out\nstages:\n  a:\n    run: train_dpo\n    with: {pretrain: m, dataset: d, save_path: out/a}\n"
    assert steps(text)["a"].flags["ckpt_path"] == "out/a.checkpoints"
    assert steps(text, "stages.a.with.ckpt_path=elsewhere")["a"].flags["ckpt_path"] == "elsewhere"


def test_stages_stand_behind_those_that_they_need(steps):
    text = (
        "folder: out\nstages:\n"
        "  last:\n    run: evaluate_code\n    with: {saved_path: '${talks.output_path}'}\n"
        "  talks:\n    run: simulate_interactions\n    needs: [tasks]\n"
        "    with: {input_path: mini:test, output_path: o.jsonl}\n" + TASKS
    )
    assert list(steps(text)) == ["tasks", "talks", "last"]


def test_a_file_is_laid_over_those_that_it_extends(tmp_path, steps):
    (tmp_path / "base.yaml").write_text(
        "folder: base\nvalues: {a: 1, b: 2}\ndefaults: {generate_tasks: {seed: 7}}\nstages:\n"
        + TASKS
        + "      num_tasks: ${values.a}\n  gone:\n    run: generate_tasks\n  other:\n    run: generate_tasks\n"
        "    with: {output_path: o.jsonl}\n"
    )
    found = steps(
        "extends: base.yaml\nfolder: mine\nvalues: {a: 5}\nstages:\n  gone:\n  other:\n    run: copy\n"
        "    with: {input_path: i, output_path: c}\n"
    )
    assert set(found) == {"tasks", "other"}
    assert found["tasks"].flags == {"seed": 7, "output_path": "mine/t.jsonl", "num_tasks": 5}
    assert found["other"].flags == {"input_path": "i", "output_path": "c"}  # nothing of what ran there before
    (tmp_path / "base.yaml").write_text("extends: p.yaml\n")
    with pytest.raises(UsageError, match=r"p\.yaml extends itself, through .*base\.yaml"):
        steps("extends: base.yaml\nfolder: mine\n")


SHIPPED = sorted((ROOT / "configs/sweet").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_pipeline_has_a_plan(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = read_file(path)
    override(tree, "iterations=2")
    pipeline = build(tree)
    _, lines = plan(pipeline.steps, pipeline.folder)
    assert any("$ sweet-rl simulate_interactions" in line for line in lines)
    assert lines[-1] == "{0} of {0} stages would run.".format(len(pipeline.steps))
    assert not list(tmp_path.iterdir())  # nothing is written


def planned(*names, said=()):
    tree = read_file(ROOT / "configs/sweet" / names[0])
    for name in names[1:]:
        tree = laid_over(tree, read_file(ROOT / "configs/sweet" / name))
    for one in said:
        override(tree, one)
    return {step.name: step for step in build(tree).steps}


def test_the_published_setting():
    """docs/published/sweet_rl.md#settings."""
    for steps in (planned("llama8b.yaml"), planned("llama8b_published.yaml")):
        for training in (steps["critic"], steps["policy"]):
            assert training.launcher == ("deepspeed", "--num_gpus", "8")
            assert training.flags.items() >= {
                "learning_rate": 2e-7, "beta": 0.1, "train_batch_size": 8, "micro_train_batch_size": 1, "bf16": True,
                "zero_stage": 3, "gradient_checkpointing": True, "flash_attn": True, "group_by_history": False,
            }.items()  # fmt: skip
        critic, policy = steps["critic"].flags, steps["policy"].flags
        assert (critic["max_epochs"], critic["max_len"], critic["mean_log_prob"]) == (4, 8192, "trajectory")
        assert (policy["max_epochs"], policy["max_len"], policy["nll_loss_coef"]) == (1, 16384, 0.01)
        assert "mean_log_prob" not in policy
        assert steps["grades"].flags["k"] == 3
        assert steps["candidates"].flags["data_fraction"] == 0.1
        assert (steps["candidates"].flags["best_of_n"], steps["pairs"].flags["num_pairs"]) == (16, 4)
        assert steps["test"].flags.items() >= {"num_tasks": 1000, "max_turns": 10, "temperature": 1.0}.items()
    assert critic["response_template"] == "<|start_header_id|>assistant<|end_header_id|>"
    assert critic["compat"] == policy["compat"] == steps["ranks"].flags["compat"] == "published"
    assert steps["pairs"].flags["no_prompt"]
    assert "prompt_key" not in policy
    assert planned("llama8b.yaml")["policy"].flags["prompt_key"] == "prompt"


def test_the_published_setting_of_frontend_design():
    """docs/published/sweet_rl.md#settings; the critic's epochs are from the paper."""
    steps = planned("llama8b_frontend.yaml")
    for name, tasks, repeats in (("dialogues", 1000, 6), ("test", 500, 1)):
        played = steps[name].flags
        assert (played["num_tasks"], played["repeats"]) == (tasks, repeats)
        assert (played["world"], played["batch_size"], played["max_turns"]) == ("html", 100, 10)
    assert (steps["grades"].flags["k"], steps["grades"].flags["margin"]) == (6, 0.1)
    assert "margin" not in steps["report"].flags
    assert steps["grades"].run == "evaluate_html"
    assert steps["report"].flags["clip_model"] == "openai/clip-vit-base-patch32"
    assert (steps["critic"].flags["max_epochs"], steps["critic"].flags["max_len"]) == (8, 8192)
    assert steps["policy"].flags["max_epochs"] == 1
    assert steps["ranks"].flags["dtype"] == "bfloat16"
    no_clip = planned("llama8b_frontend.yaml", said=["values.clip=null"])
    assert "clip_model" not in no_clip["report"].flags


@pytest.mark.parametrize(("name", "least"), [("llama8b", 1.0), ("llama8b_frontend", None)])
def test_rejection_fine_tuning_in_the_published_setting(name, least):
    """The paper's batch of 32, on the same dialogues."""
    steps = planned(f"{name}_rft.yaml")
    assert list(steps) == ["dialogues", "grades", "policy", "test", "report"]
    assert steps["policy"].run == "train_sft"
    assert steps["policy"].launcher[:1] == ("deepspeed",)
    flags = steps["policy"].flags
    assert (flags["train_batch_size"], flags["best_of_task"], flags.get("min_reward")) == (32, True, least)
    assert steps == {**planned(f"{name}.yaml", "over/rft.yaml", said=[f"folder=outputs/rft_{name}"])}


def test_what_the_published_setting_takes_is_estimated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    most = {}
    for name in ("llama8b", "llama8b_lora", "llama8b_offload", "llama8b_one_gpu"):
        steps = build(read_file(ROOT / "configs/sweet" / f"{name}.yaml")).steps
        needs = [needed(step, 60.0, steps) for step in steps]
        most[name] = max(one.memory for one in needs if one.memory is not None) / 1e9
        assert "time: about 60 s, as last time; disk: about " in str(needs[-2])
    assert most["llama8b_lora"] < most["llama8b_offload"] < most["llama8b"] < 40
    assert 40 < most["llama8b_one_gpu"] < 72  # of 80 GB
