"""What a run lacks is said before it: each thing as it should be, and each way in which it is not."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweet_rl.chat.formats import model_path
from sweet_rl.pipelines import preflight
from sweet_rl.pipelines.preflight import Finding, Server, look, look_at_model
from sweet_rl.pipelines.steps import COPY, Step
from tests.reflect_data.serving import talking
from tests.users.test_model import strict_server


def test_a_finding_says_what_and_how_to_repair_it():
    found = str(Finding("WRONG", "disk", "it is full", "make room"))
    assert found == "WRONG  disk: it is full\n       repair: make room"


def tasks_file(path, count, **row):
    row = {"problem_description": "A page", "ground_truth": "<html></html>", **row}
    path.write_text("".join(json.dumps({**row, "number": i}) + "\n" for i in range(count)))
    return str(path)


TESTED = {"test_cases": {"test1": "f(1)"}}


@pytest.mark.parametrize(
    ("made", "world", "level", "seen", "repair"),
    [
        ((5, TESTED), "code", "OK", "3 of ", ""),
        ((3, {}), "html", "OK", "3 of ", ""),
        ("mini:test", "code", "OK", "3 of mini:test", ""),
        ("twenty-questions:test", "twenty_questions", "OK", "3 of ", ""),
        ((2, TESTED), "code", "WRONG", "has 2 tasks, 3 are wanted", "NUM=2, or the whole file"),
        ((3, {}), "code", "WRONG", "has no test_cases", "tasks of code"),
        ((3, {"ground_truth": "def f()"}), "html", "WRONG", "has no page in ground_truth", "tasks of html"),
        ((3, {"problem_description": 1}), "code", "WRONG", "problem_description", "another source"),
        ("backend_tasks/test.jsonl", "code", "WRONG", "there is no file", "hf download facebook/collab"),
        ("pages/test.jsonl", "html", "WRONG", "there is no file", "sweet-rl prepare_websight pages"),
    ],
)
def test_tasks(made, world, level, seen, repair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = made if isinstance(made, str) else tasks_file(tmp_path / "t.jsonl", made[0], **made[1])
    found = preflight.look_at_tasks("tasks", source, 3, world, "NUM")
    assert (found.level, seen in found.seen, repair in found.repair) == (level, True, True), found


def test_a_model_must_be_whole(tmp_path):
    folder = shutil.copytree(model_path("embedded"), tmp_path / "model")
    assert look_at_model(str(folder)) == Finding("OK", "model", str(folder))
    (folder / "model.safetensors").unlink()
    assert "lacks weights" in look_at_model(str(folder)).seen
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "lacks model-1.safetensors, model-2.safetensors" in look_at_model(str(folder)).seen
    (folder / "config.json").unlink()
    assert "lacks config.json" in look_at_model(str(folder)).seen
    away = look_at_model("nobody/a-model")
    assert (away.level, away.repair) == ("WARN", "hf download nobody/a-model")


def test_what_steps_lack(tmp_path, monkeypatch):
    """A folder that cannot be written, a file, a program; what the pipeline makes itself is not looked for."""
    made = str(tmp_path / "out" / "model")
    trains = {"pretrain": made, "dataset": "d", "save_path": made + "2"}
    talks = {"input_path": "mini:test", "num_tasks": 2, "output_path": "o.jsonl", "env_model": "scripted"}
    steps = [
        Step("copied", COPY, flags={"input_path": str(tmp_path / "no.jsonl"), "output_path": "c.jsonl"}),
        Step("talks", "simulate_interactions", flags=talks | {"agent_model": "questioner"}),
        Step("policy", "train_dpo", flags=trains, launcher=("no-such-launcher", "8")),
    ]
    found = list(look(steps, tmp_path / "out", steps))
    levels = {"output": "OK", "dialogues to learn from": "WRONG", "tasks of talks": "OK", "disk": "OK"}
    levels |= {"programs and packages": "WRONG"}
    assert {one.what: one.level for one in found} == levels
    assert len(found) == 5
    assert "'no-such-launcher' is not on the path" in found[-1].seen
    assert not list((tmp_path / "out").iterdir())

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in next(look(steps, tmp_path / "out", steps)).seen
    Path(tmp_path / "file").write_text("")
    assert next(look(steps, tmp_path / "file", steps)).level == "WRONG"


def test_disk_and_gpus_are_compared_with_an_estimate(tmp_path, monkeypatch):
    trains = {"pretrain": "nobody/a-7B", "dataset": "d", "save_path": str(tmp_path / "m")}
    steps = [Step("policy", "train_dpo", flags=trains)]
    sees = "import types\ncuda = types.SimpleNamespace(device_count=lambda: 2, get_device_properties="
    (tmp_path / "torch.py").write_text(
        f"{sees}lambda at: types.SimpleNamespace(total_memory=[81e9, 24e9][at]))"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20e9))
    found = {one.what: one for one in look(steps, tmp_path / "out", steps)}
    assert found["disk"].level == found["GPU memory"].level == "WRONG"
    assert found["disk"].seen.startswith("20.0 GB are free, about 28.0 GB are needed")
    assert "of each GPU's 24.0 GB" in found["GPU memory"].seen
    (tmp_path / "torch.py").write_text("import types\ncuda = types.SimpleNamespace(device_count=lambda: 0)")
    assert preflight.gpu_bytes() == 0


def served(*servers):
    return asyncio.run(preflight.look_at_servers(servers))


def test_servers():
    def server(url, model="m", **more):
        return Server("human", (url,), model, None, "start it")._replace(**more)

    with talking(lambda _: "yes") as gone:
        pass
    with talking(lambda _: "yes") as url:
        good, auto, unknown, dead, late = served(
            server(url), server(url, "auto"), server(url, "another"), server(gone), server(gone, late=True)
        )
    assert str(good) == f"OK     human: m is at {url}"
    assert auto.level == "OK"
    assert ("offers" in unknown.seen, "not 'another'" in unknown.seen) == (True, True)
    assert f"No server answers at {gone}" in dead.seen
    assert {finding.level for finding in (unknown, dead)} == {"WRONG"}
    assert (late.level, late.repair) == ("WARN", "start it")
    assert "asked in the last stages" in late.seen
    assert "key" in served(server(gone, key="a\nb"))[0].seen.lower()


def test_a_server_need_not_list_its_models_where_one_is_named():
    async def look(model):
        async with strict_server([]) as url:
            return (await preflight.look_at_servers([Server("human", (url,), model, None, "")]))[0].level

    assert [asyncio.run(look(model)) for model in ("m", "auto")] == ["OK", "WRONG"]
