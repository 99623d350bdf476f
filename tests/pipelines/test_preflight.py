"""What a long run needs, looked at before it: each thing as it should be, and each way in which it is not."""

import asyncio
import errno
import json
import math
import os
import shutil
from types import SimpleNamespace

import pytest
import safetensors

from sweet_rl.chat.formats import model_path
from sweet_rl.pipelines import preflight
from sweet_rl.pipelines.needs import question
from sweet_rl.pipelines.preflight import Gpu, Server, Size, Training, gpu_bytes, gpus, size_of, wrong
from sweet_rl.players import HumanFlags
from sweet_rl.players.cast import Cast
from sweet_rl.worlds import world_of
from tests.reflect_data.serving import talking
from tests.training.pairs import write_dialogues
from tests.users.serving import serving
from tests.users.test_model import strict_server

GB = 1e9
LLAMA = Size(8_030_261_248, 32, 4096)


def test_a_finding_says_what_and_how_to_repair_it():
    found = str(wrong("disk", "it is full", "make room"))
    assert found == "WRONG  disk: it is full\n       repair: make room"


# ---- data


def tasks_file(path, count, **row):
    row = {"problem_description": "A page", "ground_truth": "<html></html>", **row}
    path.write_text("".join(json.dumps({**row, "number": i}) + "\n" for i in range(count)))
    return str(path)


def look(source, wanted=3, world="code"):
    return preflight.look_at_tasks("tasks", source, wanted=wanted, variable="NUM_TEST_TASKS", world=world)


def test_tasks_as_they_should_be(tmp_path):
    path = tasks_file(tmp_path / "t.jsonl", 5, test_cases={"test1": "f(1)"})
    assert str(look(path)) == f"OK     tasks: 3 of {path}"
    assert look(tasks_file(tmp_path / "p.jsonl", 3), world="html").level == "ok"
    assert look("mini:test").level == look("twenty-questions:test", world="twenty_questions").level == "ok"


def test_tasks_that_are_wrong(tmp_path):
    short = look(tasks_file(tmp_path / "t.jsonl", 2, test_cases={"test1": "f(1)"}))
    assert (short.level, short.repair) == ("wrong", "NUM_TEST_TASKS=2, or the whole file")
    assert "2 tasks, 3 are wanted" in short.seen
    untested = look(tasks_file(tmp_path / "u.jsonl", 3))
    assert untested.level == "wrong"
    assert "has no test_cases" in untested.seen
    code = look(tasks_file(tmp_path / "c.jsonl", 3, ground_truth="def f(): ..."), world="html")
    assert "has no page in ground_truth" in code.seen
    broken = tmp_path / "b.jsonl"
    broken.write_text('{"problem_description": 1}\n')
    assert look(str(broken)).level == "wrong"
    assert "problem_description" in look(str(broken)).seen
    absent = look(str(tmp_path / "backend_tasks" / "test.jsonl"))
    assert (absent.level, absent.repair.partition(" (")[0]) == (
        "wrong",
        f"hf download facebook/collaborative_agent_bench --repo-type dataset --local-dir {tmp_path}",
    )
    page = look(str(tmp_path / "pages" / "test.jsonl"), world="html")
    assert page.repair.startswith(f"sweet-rl prepare_websight {tmp_path / 'pages'} ")


def test_dialogues(tmp_path):
    rows = [{"task": f"task {i % 2}", "answers": ["What?", "x"], "reward": 0} for i in range(6)]
    path = write_dialogues(tmp_path / "d.jsonl", rows)
    good = preflight.look_at_dialogues(str(path), repeats=3)
    assert (good.level, good.seen) == ("ok", f"6 rows of {path}, 3 of each of 2 tasks")
    odd = preflight.look_at_dialogues(str(path), repeats=4)
    assert (odd.level, "no multiple of 4" in odd.seen) == ("wrong", True)

    plain = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in plain[0]["dialogue_history"]:
        entry.pop("input", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in plain))
    assert "has no 'input'" in preflight.look_at_dialogues(str(path), repeats=3).seen
    path.write_text('{"task":')
    assert preflight.look_at_dialogues(str(path), repeats=3).level == "wrong"
    path.write_text("")
    assert "is empty" in preflight.look_at_dialogues(str(path), repeats=3).seen
    (tmp_path / "sub").mkdir()
    moved = shutil.move(path, tmp_path / "sub" / "d.jsonl")
    assert preflight.look_at_dialogues(str(path), repeats=3).repair == f"OFFLINE={moved}"


# ---- models


def test_a_model_is_counted_and_must_be_whole(tmp_path):
    folder = shutil.copytree(model_path("embedded"), tmp_path / "model")
    with safetensors.safe_open(folder / "model.safetensors", "numpy") as file:
        count = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - no dict
    size, finding = preflight.look_at_model(str(folder))
    assert (size.parameters, size.layers, finding.level) == (count, 2, "ok")
    (folder / "model.safetensors").unlink()
    assert size_of(folder).parameters == count  # of the configuration alone

    def seen():
        return preflight.look_at_model(str(folder))[1].seen

    assert "lacks weights" in seen()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "lacks 2 of 2 files of weights (model-1.safetensors, ...)" in seen()
    (folder / "config.json").unlink()
    assert "has no config.json" in seen()


def test_a_published_model_is_as_large_as_it_is(tmp_path):
    config = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert size_of(tmp_path) == LLAMA


def test_a_model_that_is_not_here_is_as_large_as_its_name_says():
    size, finding = preflight.look_at_model("nobody/Llama-9.9-8B-Instruct")
    assert (finding.level, finding.repair) == ("warn", "hf download nobody/Llama-9.9-8B-Instruct")
    assert size.parameters == 8e9
    assert 28 <= size.layers <= 36
    assert preflight.look_at_model("nobody/a-model")[0] is None


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (Training(), 16.0),
        (Training(processes=8, sharded=3, half=True), 2.0),
        (Training(processes=8, sharded=3), 2.0),
        (Training(processes=8, sharded=2, half=True), 2 + 14 / 8),
        (Training(processes=8, sharded=1, half=True), 4 + 12 / 8),
        (Training(processes=8, half=True), 16.0),
        (Training(processes=8, sharded=3, half=True, offload=True), 0.5),
        (Training(lora_rank=16), 4.0),
        (Training(processes=2, sharded=2, half=True, lora_rank=16), 2.0),
        (Training(lora_rank=16, four_bits=True), 0.55),
    ],
)
def test_memory_of_a_gpu_in_bytes_of_a_parameter(training, expected):
    """Without activations; an adapter adds half a gigabyte."""
    assert gpu_bytes(LLAMA, training) / LLAMA.parameters == pytest.approx(expected, abs=0.07)


def test_activations_checkpoints_and_offloading():
    plain, long = Training(processes=8, sharded=3, half=True), {"tokens": 32_768, "recompute": True}
    more = gpu_bytes(LLAMA, Training(processes=8, sharded=3, half=True, **long)) - gpu_bytes(LLAMA, plain)
    assert more == 32_768 * 4096 * (2 * 32 + 40)
    assert preflight.disk_bytes(LLAMA, plain) == 2 * LLAMA.parameters
    assert preflight.disk_bytes(LLAMA, Training(kept=3)) == (4 + 3 * 16) * LLAMA.parameters
    assert preflight.disk_bytes(LLAMA, Training(kept=3, lora_rank=8)) == 4 * LLAMA.parameters
    assert preflight.main_memory_bytes(LLAMA, Training(offload=True)) == 12 * LLAMA.parameters
    assert preflight.look_at_main_memory(1).level == "ok"
    assert preflight.look_at_main_memory(1e18).level == "wrong"


# ---- the machine


@pytest.mark.parametrize(("free", "level"), [(200, "ok"), (120, "warn"), (90, "wrong")])
def test_the_disk(tmp_path, monkeypatch, free, level):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free * GB))
    found = preflight.look_at_disk(tmp_path / "not" / "yet", 100 * GB, "models")
    assert (found.level, f"{free:.1f} GB are free at {tmp_path}, about 100.0 GB" in found.seen) == (
        level,
        True,
    )


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    assert preflight.look_at_output(tmp_path / "new").level == "ok"
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "file").write_text("")
    assert preflight.look_at_output(tmp_path / "file").level == "wrong"

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in preflight.look_at_output(tmp_path / "new").seen


def test_gpus_as_nvidia_smi_tells_of_them(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '81559, 80000\\n81559, 500\\n'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus() == [Gpu(81559 * 2**20, 80000 * 2**20), Gpu(81559 * 2**20, 500 * 2**20)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.free for gpu in gpus()] == [500 * 2**20]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert gpus() == []


@pytest.mark.parametrize(
    ("found", "processes", "needed", "level", "says"),
    [
        ([Gpu(80 * GB, 79 * GB)] * 8, 8, 31, "ok", "about 31.0 GB of each GPU's 80.0 GB"),
        ([Gpu(80 * GB, 20 * GB)] * 8, 8, 31, "warn", "20.0 GB are free"),
        ([Gpu(80 * GB, 79 * GB)] * 8, 8, 75, "warn", "75.0 GB"),
        ([Gpu(24 * GB, 24 * GB)] * 8, 8, 31, "wrong", "of each GPU's 24.0 GB"),
        ([Gpu(80 * GB, 79 * GB)] * 4, 8, 31, "wrong", "there are 4 GPUs"),
        ([], 1, 31, "warn", "no GPU"),
        ([], 8, 31, "wrong", "no GPU"),
    ],
)
def test_gpu_memory(found, processes, needed, level, says):
    finding = preflight.look_at_gpus(found, processes=processes, needed=needed * GB, parts="training")
    assert (finding.level, says in finding.seen, bool(finding.repair)) == (level, True, level != "ok")


def test_programs_and_packages():
    (good,) = preflight.look_at_programs(["sh"], ["json"])
    assert str(good) == "OK     programs and packages: sh, json"
    program, package = preflight.look_at_programs(["no-such-launcher"], ["json", "vllm_that_nobody_has"])
    assert "'no-such-launcher' is not on the path" in program.seen
    assert "'vllm_that_nobody_has' is not installed" in package.seen


# ---- servers


def served(*servers):
    return asyncio.run(preflight.look_at_servers(servers))


def test_servers_that_answer():
    asked = []
    with talking(lambda _: "yes", asked=asked) as url:
        agent = Server("agent", [url], "m", chat=False, max_tokens=5)
        human, agent = served(Server("human", [url], "m"), agent)
    assert str(agent) == f"OK     agent: m answers at {url}"
    assert human.level == "ok"
    ends = ("chat/completions", "v1/completions")
    chat, prompt = (next(one for one in asked if one["path"].endswith(end)) for end in ends)
    assert (chat["max_tokens"], chat["temperature"]) == (
        4096,
        0,
    )  # as the run will ask: a short context refuses
    assert prompt["max_tokens"] == 1


def test_the_embedded_simulator_is_a_human(tmp_path):
    """`auto` takes the first model that is offered; it is asked with the run's own prompt."""

    async def look():
        async with serving() as url:
            cast = Cast(human=HumanFlags(env_base_url=url), world=world_of("code"))
            server = Server("human", [url], "auto", prompt=question(cast))
            return url, await preflight.look_at_servers([server])

    url, (found,) = asyncio.run(look())
    assert str(found) == f"OK     human: scripted answers at {url}"


def test_servers_that_do_not():
    def refusing(_):
        raise ValueError("this model's context is 2048 tokens")

    with talking(lambda _: "yes") as gone:
        pass
    with talking(refusing) as url:
        refused, unknown, dead, late = served(
            Server("human", [url], "m", start="start it"),
            Server("human", [url], "another", start="start it"),
            Server("human", [gone], "m", start="start it"),
            Server("human", [gone], "m", start="start it", late=True),
        )
    assert "did not answer a small request (bad_request 400" in refused.seen
    assert "offers" in unknown.seen
    assert "not 'another'" in unknown.seen
    assert f"No server answers at {gone}" in dead.seen
    assert {finding.level for finding in (refused, unknown, dead)} == {"wrong"}
    assert (late.level, late.repair) == ("warn", "start it")
    assert "asked in the last stages" in late.seen
    assert "key" in served(Server("human", [gone], "m", key="a\nb"))[0].seen.lower()


def test_a_human_with_eyes_is_shown_two_pictures():
    """By OpenAI's reference alone: a server that checks each field, and lists no models."""
    asked = []

    async def look():
        async with strict_server(asked) as url:
            return await preflight.look_at_servers([Server("human", [url], "m", pictures=2)])

    (found,) = asyncio.run(look())
    assert found.level == "ok", found
    assert found.seen.endswith("and takes 2 pictures")
    parts = asked[0]["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
