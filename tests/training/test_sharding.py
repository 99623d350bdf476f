"""What flags and files say to the engines, without any engine."""

import json
from dataclasses import replace

import pytest

from sweet_rl.commands.training_flags import TrainingFlags
from sweet_rl.errors import UsageError
from sweet_rl.training.settings import LossSettings, OptimizerSettings, OutputSettings
from sweet_rl.training.sharding import deepspeed_config, fsdp_config, scoring_config
from tests.conftest import ROOT

FILES = ROOT / "configs/engines"


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in (
        "USE_FSDP",
        "USE_DEEPSPEED",
        "DEEPSPEED_CONFIG_FILE",
        "DEEPSPEED_ZERO_STAGE",
        "MIXED_PRECISION",
    ):
        monkeypatch.delenv(f"ACCELERATE_{name}", raising=False)


def settings(**flags):
    given = TrainingFlags(**flags)
    return given.settings(given.data("rows.jsonl"), given.model("model"), loss=LossSettings())


def write(path, **config):
    path.write_text(json.dumps(config))
    return str(path)


def test_flags_become_deepspeeds_configuration():
    shards = settings(zero_stage=3, adam_offload=True, zpg=2, grad_accum_dtype="fp32").shards
    config = deepspeed_config(shards, OptimizerSettings(max_norm=0.5), bf16=True)
    zero = config["zero_optimization"]
    assert (zero["stage"], zero["offload_optimizer"]["device"], zero["zero_hpz_partition_size"]) == (
        3,
        "cpu",
        2,
    )
    assert zero["stage3_gather_16bit_weights_on_model_save"] is True
    assert (config["gradient_clipping"], config["bf16"]) == (0.5, {"enabled": True})
    assert config["data_types"] == {"grad_accum_dtype": "fp32"}


@pytest.mark.parametrize(
    ("name", "stage", "offload"), [("zero2", 2, False), ("zero3", 3, False), ("zero3_offload", 3, True)]
)
def test_the_files_in_configs_are_taken_as_they_are(name, stage, offload):
    path = FILES / f"{name}.json"
    shards = settings(deepspeed_config=str(path), zero_stage=1).shards
    assert (shards.zero_stage, shards.adam_offload) == (stage, offload)
    config = deepspeed_config(shards, OptimizerSettings(max_norm=0.5), bf16=False)
    theirs = json.loads(path.read_text())["zero_optimization"]
    assert config["zero_optimization"] == theirs
    assert (config["gradient_clipping"], config["bf16"]) == (0.5, {"enabled": False})
    scoring = scoring_config(shards, bf16=False)["zero_optimization"]
    assert (scoring["stage"], scoring.get("offload_param")) == (stage, theirs.get("offload_param"))


def test_a_file_that_contradicts_flags_is_refused(tmp_path):
    path = write(tmp_path / "ds.json", zero_optimization={"stage": 2}, gradient_clipping=5, custom={"a": 1})
    shards = settings(deepspeed_config=path).shards
    assert deepspeed_config(shards, OptimizerSettings(max_norm=5), bf16=False)["custom"] == {"a": 1}
    with pytest.raises(UsageError, match=r'gradient_clipping: 5, and the flags say otherwise. Write "auto"'):
        deepspeed_config(shards, OptimizerSettings(max_norm=1), bf16=False)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "a section zero_optimization whose stage is"),
        ({"zero_optimization": {"stage": 4}}, "a section zero_optimization whose stage is"),
        ({"zero_optimization": {"stage": 2, "compute_grad_norm": False}}, "leave compute_grad_norm out"),
        ({"zero_optimization": {"stage": 2}, "optimizer": {}}, "has a section 'optimizer'; remove it"),
    ],
)
def test_files_that_are_no_configuration(config, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        settings(deepspeed_config=write(tmp_path / "ds.json", **config))


def test_a_file_that_is_not_there():
    with pytest.raises(UsageError, match=r"--deepspeed_config 'none.json' is not a readable JSON file"):
        settings(deepspeed_config="none.json")


def test_what_accelerate_launch_was_told_is_the_default(monkeypatch):
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(FILES / "zero3.json"))
    assert settings().shards.zero_stage == 3
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert settings().shards.shard_with == "fsdp2"
    assert settings(shard_with="deepspeed").shards.zero_stage == 3
    with pytest.raises(UsageError, match="--deepspeed_config has no effect with --shard_with fsdp2"):
        settings(deepspeed_config=str(FILES / "zero3.json"))
    monkeypatch.delenv("ACCELERATE_USE_FSDP")
    monkeypatch.delenv("ACCELERATE_DEEPSPEED_CONFIG_FILE")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    with pytest.raises(UsageError, match="sets ZeRO stage 3, and --zero_stage 2"):
        settings()
    assert settings(zero_stage=3).shards.zero_stage == 3


def test_fsdps_configuration():
    shards = settings(shard_with="fsdp2", adam_offload=True).shards
    told = {"FSDP_RESHARD_AFTER_FORWARD": "False"}
    config = fsdp_config(shards, told, cuda=True)
    assert (config["version"], config["cpu_offload"], config["reshard_after_forward"]) == (2, True, "false")
    assert fsdp_config(shards, {}, cuda=False)["cpu_offload"] is False  # there is nowhere else
    with pytest.raises(UsageError, match="--shard_with must be deepspeed or fsdp2, got 'fsdp'"):
        settings(shard_with="fsdp")


def test_engines_by_processes_and_flags(monkeypatch):
    from sweet_rl.training import sharding

    def engine(**flags):
        return sharding.engine_of(settings(**flags)), sharding.shards_weights(settings(**flags))

    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert engine() == engine(shard_with="fsdp2") == (None, False)
    assert engine(adam_offload=True) == ("deepspeed", False)
    with pytest.raises(UsageError, match="--adam_offload: with one process only --shard_with deepspeed"):
        sharding.check_engine(settings(shard_with="fsdp2", adam_offload=True), cuda=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert engine() == ("deepspeed", False)
    assert engine(zero_stage=0) == (None, False)
    assert engine(zero_stage=3) == ("deepspeed", True)
    assert engine(shard_with="fsdp2") == ("fsdp2", True)
    assert sharding.describe(settings(zero_stage=3)) == "DeepSpeed ZeRO-3 over 2 processes"
    with pytest.raises(UsageError, match="--load_in_4bit: quantised weights are not sharded"):
        sharding.check_engine(settings(shard_with="fsdp2", load_in_4bit=True), cuda=True)
    with pytest.raises(UsageError, match="--torch_compile works with one process only"):
        sharding.check_engine(settings(shard_with="fsdp2", torch_compile=True), cuda=True)
    with pytest.raises(UsageError, match="on CPUs DeepSpeed computes in float32 only"):
        sharding.check_engine(settings(bf16=True), cuda=False)


def test_a_checkpoint_is_of_its_engine_and_deepspeeds_of_as_many_processes(monkeypatch):
    from sweet_rl.training import checkpoints
    from sweet_rl.training.fitting import _ROUNDING, Rows, _made_from

    def made_from(world, micro=8, **shards):
        monkeypatch.setenv("WORLD_SIZE", str(world))
        one = replace(settings(**shards), output=OutputSettings(load_checkpoint=True))
        optimizer = replace(one.optimizer, micro_train_batch_size=micro)
        return _made_from("train_dpo", replace(one, optimizer=optimizer), Rows(None, [], [], 0))

    alone, fsdp, zero = made_from(1), made_from(2, shard_with="fsdp2"), made_from(2)
    assert checkpoints.differences(alone, fsdp) == ["the engine was None, is 'fsdp2'"]
    assert checkpoints.differences(fsdp, made_from(3, shard_with="fsdp2", timeout_s=5)) == []
    assert checkpoints.differences(zero, made_from(3)) == ["the number of processes was 2, is 3"]
    assert checkpoints.differences(zero, made_from(2, zero_stage=3)) == ["--zero_stage was 2, is 3"]
    assert checkpoints.differences(alone, made_from(1, micro=4), free=_ROUNDING) == []


def test_only_a_lost_process_is_called_one(monkeypatch):
    from sweet_rl.errors import ServiceError
    from sweet_rl.training.sharding import lost_processes_named

    monkeypatch.setenv("WORLD_SIZE", "2")
    closed = RuntimeError("[gloo/transport/tcp/pair.cc:1] Connection closed by peer [::1]:1")
    message = r"Process 0 of 2 cannot reach the others.*--timeout_s 7"
    with pytest.raises(ServiceError, match=message), lost_processes_named(settings(timeout_s=7)):
        raise closed
    with pytest.raises(RuntimeError, match="mat1 and mat2"), lost_processes_named(settings()):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(RuntimeError, match="gloo"), lost_processes_named(settings()):
        raise closed
