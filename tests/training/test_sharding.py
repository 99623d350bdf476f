"""What flags and files say to the engines, and two processes of each that do what one does."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from sweet_rl.cli import load
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.training import processes
from sweet_rl.training.processes import deepspeed_config, fsdp_config, scoring_config
from sweet_rl.training.settings import TrainSettings
from tests.conftest import ROOT
from tests.training.pairs import dialogue_pairs, write_pairs

FILES = ROOT / "configs/engines"


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in "USE_FSDP USE_DEEPSPEED DEEPSPEED_CONFIG_FILE DEEPSPEED_ZERO_STAGE MIXED_PRECISION".split():
        monkeypatch.delenv(f"ACCELERATE_{name}", raising=False)


def settings(**flags):
    return TrainSettings(dataset="rows.jsonl", pretrain="model", **flags).resolved()


def test_flags_become_deepspeeds_configuration():
    flags = {"zero_stage": 3, "adam_offload": True, "zpg": 2, "grad_accum_dtype": "fp32"}
    config = deepspeed_config(settings(max_norm=0.5, bf16=True, **flags))
    zero = config["zero_optimization"]
    offloads = zero["offload_optimizer"]["device"]
    assert (zero["stage"], offloads, zero["zero_hpz_partition_size"]) == (3, "cpu", 2)
    assert zero["stage3_gather_16bit_weights_on_model_save"] is True
    assert (config["gradient_clipping"], config["bf16"]) == (0.5, {"enabled": True})
    assert config["data_types"] == {"grad_accum_dtype": "fp32"}


@pytest.mark.parametrize(
    ("name", "stage", "offload"), [("zero2", 2, False), ("zero3", 3, False), ("zero3_offload", 3, True)]
)
def test_the_files_in_configs_are_taken_as_they_are(name, stage, offload):
    path = FILES / f"{name}.json"
    shards = settings(deepspeed_config=str(path), zero_stage=1, max_norm=0.5)
    assert (shards.zero_stage, shards.adam_offload) == (stage, offload)
    config, theirs = deepspeed_config(shards), json.loads(path.read_text())["zero_optimization"]
    assert config["zero_optimization"] == theirs
    assert (config["gradient_clipping"], config["bf16"]) == (0.5, {"enabled": False})
    scoring = scoring_config(shards)["zero_optimization"]
    assert (scoring["stage"], scoring.get("offload_param")) == (stage, theirs.get("offload_param"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "a section zero_optimization whose stage is"),
        ({"zero_optimization": {"stage": 4}}, "a section zero_optimization whose stage is"),
        ({"zero_optimization": {"stage": 2, "compute_grad_norm": False}}, "remove compute_grad_norm"),
        ({"zero_optimization": {"stage": 2}, "optimizer": {}}, "remove optimizer"),
        (
            {"zero_optimization": {"stage": 2}, "gradient_clipping": 5},
            r'gradient_clipping: 5, and .* Write "auto"',
        ),
        (None, "FileNotFoundError"),
    ],
)
def test_files_that_are_no_configuration_or_contradict_flags(config, message, tmp_path):
    path = tmp_path / "ds.json"
    if config is not None:
        path.write_text(json.dumps(config))
    with pytest.raises(UsageError, match=message):
        deepspeed_config(settings(deepspeed_config=str(path)))
    if config and "gradient_clipping" in config:
        path.write_text(json.dumps(config | {"custom": {"a": 1}}))
        assert deepspeed_config(settings(deepspeed_config=str(path), max_norm=5))["custom"] == {"a": 1}


def test_what_accelerate_launch_was_told_is_the_default(monkeypatch):
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(FILES / "zero3.json"))
    assert settings().zero_stage == 3
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert settings().shard_with == "fsdp2"
    assert settings(shard_with="deepspeed").zero_stage == 3
    with pytest.raises(UsageError, match="--deepspeed_config has no effect with --shard_with fsdp2"):
        settings(deepspeed_config=str(FILES / "zero3.json"))
    monkeypatch.delenv("ACCELERATE_USE_FSDP")
    monkeypatch.delenv("ACCELERATE_DEEPSPEED_CONFIG_FILE")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    with pytest.raises(UsageError, match="sets ZeRO stage 3, and --zero_stage 2"):
        settings()
    assert settings(zero_stage=3).zero_stage == 3


def test_fsdps_configuration():
    shards = settings(shard_with="fsdp2", adam_offload=True)
    config = fsdp_config(shards, {"FSDP_RESHARD_AFTER_FORWARD": "False"}, cuda=True)
    assert (config["version"], config["cpu_offload"], config["reshard_after_forward"]) == (2, True, "false")
    assert fsdp_config(shards, {}, cuda=False)["cpu_offload"] is False  # there is nowhere else
    with pytest.raises(UsageError, match="--shard_with must be deepspeed or fsdp2, got 'fsdp'"):
        settings(shard_with="fsdp")


@pytest.mark.parametrize(
    ("world", "flags", "engine", "divides_weights"),
    [
        (1, {}, None, False),
        (1, {"shard_with": "fsdp2"}, None, False),
        (1, {"adam_offload": True}, "deepspeed", False),
        (2, {}, "deepspeed", False),
        (2, {"zero_stage": 0}, None, False),
        (2, {"zero_stage": 3}, "deepspeed", True),
        (2, {"shard_with": "fsdp2"}, "fsdp2", True),
    ],
)
def test_engines_by_processes_and_flags(world, flags, engine, divides_weights, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    assert processes.engine_of(settings(**flags)) == engine
    assert processes.shards_weights(settings(**flags)) is divides_weights


@pytest.mark.parametrize(
    ("world", "flags", "message"),
    [
        (1, {"shard_with": "fsdp2", "adam_offload": True}, "--adam_offload: with one process only --shard_with deepspeed"),
        (2, {"shard_with": "fsdp2", "load_in_4bit": True}, "--load_in_4bit: quantised weights are not sharded"),
        (2, {"shard_with": "fsdp2", "torch_compile": True}, "--torch_compile works with one process only"),
        (2, {"bf16": True}, "on CPUs DeepSpeed computes in float32 only"),
    ],
)  # fmt: skip
def test_what_an_engine_does_not_have(world, flags, message, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    with pytest.raises(UsageError, match=message):
        processes.check_engine(settings(**flags), cuda=False)


def test_a_checkpoint_is_of_its_engine_and_deepspeeds_of_as_many_processes(monkeypatch):
    from sweet_rl.training import checkpoints, trainer

    def made_from(world, micro=8, **shards):
        monkeypatch.setenv("WORLD_SIZE", str(world))
        one = settings(load_checkpoint=True, micro_train_batch_size=micro, **shards)
        return trainer.made_from("train_dpo", one, trainer.Rows(None, [], []))

    alone, fsdp, zero = made_from(1), made_from(2, shard_with="fsdp2"), made_from(2)
    for one, other, told in (
        (alone, fsdp, ["the engine was None, is 'fsdp2'"]),
        (fsdp, made_from(3, shard_with="fsdp2", timeout_s=5), []),
        (zero, made_from(3), ["the number of processes was 2, is 3"]),
        (zero, made_from(2, zero_stage=3), ["--zero_stage was 2, is 3"]),
    ):
        assert list(checkpoints.differences(one, other).values()) == told
    assert set(checkpoints.differences(alone, made_from(1, micro=4))) <= trainer.ROUNDING


def test_only_a_lost_process_is_called_one(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    closed = RuntimeError("[gloo/transport/tcp/pair.cc:1] Connection closed by peer [::1]:1")
    told = pytest.raises(ServiceError, match=r"Process 0 of 2 cannot reach the others.*--timeout_s 7")
    with told, processes.lost_processes_named(settings(timeout_s=7)):
        raise closed
    with pytest.raises(RuntimeError, match="mat1"), processes.lost_processes_named(settings()):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(RuntimeError, match="gloo"), processes.lost_processes_named(settings()):
        raise closed


ENGINES = {"zero2": {"zero_stage": 2}, "zero3": {"zero_stage": 3}, "fsdp2": {"shard_with": "fsdp2"}}
RECIPE = {"train_batch_size": 8, "micro_train_batch_size": 3, "learning_rate": 1e-3, "quiet": True}
LONG = RECIPE | {"eval_fraction": 0.1, "max_norm": 0.5, "nll_loss_coef": 0.1}  # 5 updates
SHORT = RECIPE | {"eval_fraction": 0.1, "max_samples": 26, "max_epochs": 2, "save_steps": 2}  # 6 updates
SHORT |= {"eval_steps": 2}
LORA = RECIPE | {"eval_fraction": 0.0, "max_samples": 16, "lora_rank": 32, "target_modules": "all-linear"}
LORA |= {"gradient_checkpointing": True, "learning_rate": 1e-2}
CRITIC = RECIPE | {"eval_fraction": 0.1, "max_samples": 20}
NUMBERS = ("total_loss", "loss", "chosen_reward", "eval_loss", "grad_norm")

# One process makes all runs, for one worker; the time limit is for the first test, which waits for them.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("engines")]
slow = pytest.mark.slow

# What a launcher does, but for the imports, which all share. Each rank says what its piece is.
LAUNCHER = """
import gc, json, os, signal, socket, sys, time, traceback
gc.disable()
os.environ |= {"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
import torch
torch.compile = lambda function=None, **_: function or (lambda it: it)  # for an optimizer that is not ours
import deepspeed.ops.op_builder.all_ops, deepspeed.runtime.superoffload.superoffload_stage3, peft
import torch.distributed.checkpoint.state_dict, torch.distributed.fsdp, torch.distributed.tensor
import transformers.models.llama.modeling_llama
import sweet_rl.training.runs, sweet_rl.training.forward
from pathlib import Path
from sweet_rl.cli import load
from sweet_rl.errors import SweetRLError
from sweet_rl.training import processes, runs
from sweet_rl.training.trainer import StepTrainer

sweet_rl.training.forward.CHUNK_LOGITS = 2400  # six tokens at once


def measured(trainer, run, kind, save=runs.save):
    local = states = 0
    for parameter in trainer.model.parameters():
        local += getattr(parameter, "ds_tensor", getattr(parameter, "_local_tensor", parameter)).numel()
    optimizer = trainer.optimizer.optimizer
    if trainer.is_deepspeed_enabled:
        groups = getattr(optimizer, "single_partition_of_fp32_groups", None) or optimizer.fp32_partitioned_groups_flat
        states = sum(group.numel() for group in groups)
    else:
        for state in optimizer.state.values():
            states += getattr(state["exp_avg"], "_local_tensor", state["exp_avg"]).numel()
    folder = Path(run.settings.save_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"piece-{processes.rank()}.json").write_text(json.dumps([local, states]))
    save(trainer, run, kind)


def ending(end, log=StepTrainer.log):
    def logged(trainer, logs, *more):
        if trainer.args.process_index == 1 and trainer.state.global_step == 4:
            os.kill(os.getpid(), signal.SIGKILL) if end == "dies" else time.sleep(900)
        log(trainer, logs, *more)

    return logged


class WithoutGradient(torch.autograd.Function):
    @staticmethod
    def forward(_, value):
        return value.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient * float("nan")


def diverging(compute=StepTrainer.compute_loss):
    def computed(trainer, *inputs, **more):
        trainers[:] = [trainer]
        loss = compute(trainer, *inputs, **more)
        here = trainer.args.process_index == 1 and trainer.state.global_step == 3
        return WithoutGradient.apply(loss) if here else loss

    return computed


def finite():
    parts = [getattr(p, "ds_tensor", getattr(p, "_local_tensor", p)) for p in trainers[0].model.parameters()]
    optimizer = trainers[0].optimizer.optimizer
    for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"):
        parts += getattr(optimizer, name, None) or []
    return all(part.isfinite().all() for part in parts)


trainers = []


def work(job, rank, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}
    output = open(f"{job['folder']}/output-{rank}.txt", "w")
    os.dup2(output.fileno(), 1), os.dup2(output.fileno(), 2)
    runs.save = measured
    if job["end"] == "diverges":
        StepTrainer.compute_loss = diverging()
    elif job["end"]:
        StepTrainer.log = ending(job["end"])
    signal.alarm(900)
    try:
        load(job["stage"])(job["model"], job["data"], **job["flags"])
        status = 0
    except SweetRLError as error:
        print(f"error: {error}")
        if job["end"] == "diverges":
            print(f"all weights are finite: {finite()}")
        status = 1
    except BaseException:
        traceback.print_exc()
        status = 3
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(status)


def start(job):
    os.makedirs(job["folder"], exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if not child:
            work(job, rank, port)
        children.append(child)
    return children


def finish(children, end):
    first = os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1])
    if first and end != "diverges":
        os.kill(children[1], signal.SIGKILL)
    return first, os.waitstatus_to_exitcode(os.waitpid(children[1], 0)[1])


jobs = json.load(sys.stdin)
transformers.AutoModelForCausalLM.from_pretrained(jobs[0]["model"])  # what it prepares, all share, too
gc.freeze()
waits = {job["folder"]: start(job) for job in jobs if job["end"] == "sleeps"}  # they take their time
ends = {job["folder"]: finish(start(job), job["end"]) for job in jobs if job["end"] != "sleeps"}
ends |= {folder: finish(children, "sleeps") for folder, children in waits.items()}
print(json.dumps(ends))
"""


def launch(jobs):
    """Two processes for each job; their ends by its folder."""
    more = {"input": json.dumps(jobs), "env": os.environ | {"OMP_NUM_THREADS": "1"}}
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER], capture_output=True, text=True, check=False, **more
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def output(folder):
    return "\n".join((folder / f"output-{rank}.txt").read_text()[-3000:] for rank in (0, 1))


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def farthest(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", dialogue_pairs(44))


@pytest.fixture(scope="module")
def tied(steady, tmp_path_factory):
    """A model whose head is its embedding."""
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("tied") / "model"
    shutil.copytree(steady, folder)
    model = AutoModelForCausalLM.from_pretrained(steady)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def runs(steady, tied, tiny, pairs, tmp_path_factory):
    """Folder of all runs of two processes, which are made at once; and how each of them ended."""
    pytest.importorskip("deepspeed")
    pytest.importorskip("peft")
    root = tmp_path_factory.mktemp("engines")
    jobs = []

    def run(name, model, stage="train_dpo", end=None, **flags):
        folder = str(root / name)
        flags |= {"save_path": folder} | ({"reference_cache": "none"} if stage == "train_dpo" else {})
        flags["ckpt_path"] = f"{root}/{name.replace('resumed', 'died')}/checkpoints"
        job = {"stage": stage, "model": str(model), "data": str(pairs), "end": end}
        jobs.append(job | {"folder": folder, "flags": flags})

    for engine, flags in ENGINES.items():
        run(f"{engine}/long", tied, **LONG, **flags)
        run(f"{engine}/whole", tiny, **SHORT, **flags)
        run(f"{engine}/died", tiny, **SHORT, **flags, end="dies")
        run(f"{engine}/resumed", tiny, **SHORT, **flags, load_checkpoint=True)
        run(f"{engine}/diverges", tiny, **SHORT, **flags, end="diverges")
        if engine != "zero2":
            run(f"{engine}/lora", steady, **LORA, **flags)
            run(f"{engine}/critic", steady, "train_reward_model", **CRITIC, **flags)
    run("silent", tiny, **SHORT, **ENGINES["fsdp2"], timeout_s=5, end="sleeps")
    ends = launch(jobs)
    return root, {folder.removeprefix(f"{root}/"): end for folder, end in ends.items()}


@pytest.fixture(scope="module")
def alone(steady, tied, pairs, tmp_path_factory):
    """The same in this process."""
    root = tmp_path_factory.mktemp("alone")
    for name, model, flags in (("long", tied, LONG), ("lora", steady, LORA)):
        load("train_dpo")(str(model), str(pairs), save_path=str(root / name), reference_cache="none", **flags)
    load("train_reward_model")(str(steady), str(pairs), save_path=str(root / "critic"), **CRITIC)
    return root


@slow
@pytest.mark.parametrize("engine", ENGINES)
def test_two_processes_give_the_numbers_and_the_weights_of_one_and_each_has_its_piece(engine, runs, alone):
    root, ends = runs
    folder = root / engine / "long"
    assert ends[f"{engine}/long"] == [0, 0], output(folder)
    named = {"zero2": "DeepSpeed ZeRO-2", "zero3": "DeepSpeed ZeRO-3", "fsdp2": "FSDP2"}[engine]
    assert f"{named} over 2 processes" in (folder / "output-0.txt").read_text()
    ours, theirs = lines(folder), lines(alone / "long")
    assert len(theirs) == 6
    for mine, other in zip(ours, theirs, strict=True):
        for name in set(NUMBERS) & set(other):
            assert mine[name] == pytest.approx(other[name], rel=1e-5, abs=1e-5), (name, mine["step"])
    assert farthest(weights(folder), weights(alone / "long")) < 1e-5
    whole = sum(tensor.numel() for tensor in weights(folder).values())
    for rank in (0, 1):
        piece, states = json.loads((folder / f"piece-{rank}.json").read_text())
        assert piece == (whole if engine == "zero2" else pytest.approx(whole / 2, rel=0.01))
        assert states == pytest.approx(whole / 2, rel=0.01)


@slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_dies_and_the_resumed_run_gives_the_weights_of_an_uninterrupted_one(engine, runs):
    root, ends = runs
    assert ends[f"{engine}/whole"] == [0, 0], output(root / engine / "whole")
    assert ends[f"{engine}/died"] == [1, -9], output(root / engine / "died")
    assert "error: Process 0 of 2 cannot reach the others" in output(root / engine / "died")
    assert ends[f"{engine}/resumed"] == [0, 0], output(root / engine / "resumed")
    assert f"going on from {root}/{engine}/died/checkpoints/checkpoint-2" in output(root / engine / "resumed")
    assert farthest(weights(root / engine / "resumed"), weights(root / engine / "whole")) == 0
    resumed, whole = lines(root / engine / "resumed"), lines(root / engine / "whole")
    assert resumed == [row for row in whole if row["step"] > 2]


@slow
@pytest.mark.parametrize("name", ["zero3/lora", "fsdp2/lora", "zero3/critic", "fsdp2/critic"])
def test_an_adapter_is_merged_and_a_critic_keeps_its_head(name, runs, alone):
    from transformers import AutoConfig

    root, ends = runs
    folder, other = root / name, alone / name.partition("/")[2]
    assert ends[name] == [0, 0], output(folder)
    assert farthest(weights(folder), weights(other)) < 1e-5
    ours, theirs = (AutoConfig.from_pretrained(path) for path in (folder, other))
    assert ours.architectures == theirs.architectures


@slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_gradient_that_is_not_finite_in_one_process_ends_all_of_them_before_the_step(engine, runs):
    root, ends = runs
    folder = root / engine / "diverges"
    assert ends[f"{engine}/diverges"] == [1, 1], output(folder)
    said = [(folder / f"output-{rank}.txt").read_text().partition("error: ")[2] for rank in (0, 1)]
    assert said[0] == said[1]
    assert re.match(
        r"Update 4 of the training is not a finite number \(the gradient, not the losses; norm", said[0]
    )
    assert "checkpoint-2' is from before it" in said[0]
    assert "all weights are finite: True" in said[0]
    assert [row["step"] for row in lines(folder)][-1] == 3


@slow
def test_a_process_that_does_not_answer_is_waited_for_until_the_time_limit(runs):
    root, ends = runs
    assert ends["silent"] == [1, -9], output(root / "silent")
    assert "has not answered within --timeout_s 5" in output(root / "silent")
