"""Where numbers go while a stage works: the real packages, and their files read back."""

import importlib.util
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from sweet_rl import tracking
from sweet_rl.cli import load
from sweet_rl.cli.stage import recorded
from sweet_rl.commands.archer_config import destination_of
from sweet_rl.errors import UsageError
from sweet_rl.flags.shared import LogTo
from sweet_rl.training.settings import TrackerSettings
from tests.conftest import ROOT

TRAINING = {"train_batch_size": 8, "max_len": 1024, "eval_fraction": 0.0, "quiet": True, "device": "cpu"}


def curves(folder):
    """Every curve of TensorBoard's files, as steps and values."""
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    points = {name: read.Scalars(name) for name in read.Tags()["scalars"]}
    return {n: [(one.step, pytest.approx(one.value, rel=1e-3)) for one in points[n]] for n in points}


@recorded("count")
def count(output: str, *, log_to: str = "none", first: int = 1, last: int = 3, key: str = "") -> None:
    """Report a number at each of some steps."""
    tracking.logs_to(LogTo(log_to=log_to).destination())
    tracking.sets({"key": key})
    tracking.writes(output, continues=first > 1)
    for step in range(first, last + 1):
        tracking.logs(step, {"loss": step / 4, "step": step, "note": None})
        with Path(output).open("a") as file:
            file.write(f"{step}\n")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_tensorboard_is_written_without_torch_and_a_resumed_run_goes_on_in_its_curves(here):
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    count("out.txt", log_to="tensorboard")
    count("out.txt", log_to="tensorboard", first=3, last=4)  # step 3 again: it was after the last checkpoint
    assert curves("out.txt.tensorboard") == {"loss": [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)]}
    code = (
        "import sys; from pathlib import Path; from sweet_rl.tracking import TensorBoard\n"
        "board = TensorBoard(Path('alone')); board.log(1, {'loss': 1.0}); board.close()\n"
        "assert not {'torch', 'tensorflow'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT)})
    assert curves("alone") == {"loss": [(1, 1.0)]}


def test_an_evaluation_ends_with_its_report_and_keeps_the_curves_of_its_bounds_apart(here):
    load("eval")(
        model="random", world="twenty_questions", tasks="twenty-questions:ten", num_tasks=5, bounds="best",
        output_dir="out", quiet=True, log_to="tensorboard",
    )  # fmt: skip
    report, found = json.loads((here / "out/report.json").read_text()), curves("out/tensorboard")
    means = {name: line["mean"] for name, line in report["measures"].items()}
    bounds = {f"best.{name}": line["mean"] for name, line in report["bounds"]["best"].items()}
    assert means and bounds
    assert {name: found[name][-1] for name in means | bounds} == {
        name: (5, pytest.approx(mean)) for name, mean in (means | bounds).items()
    }
    for curve, measure in (("reward", "return"), ("best.reward", "best.return")):
        assert found[curve][-1] == (5, pytest.approx((means | bounds)[measure]))


def test_a_training_has_the_same_numbers_everywhere(here):
    from tests.tiny_models import save_tiny_llama
    from tests.training.pairs import dialogue_pairs, write_pairs

    model = save_tiny_llama(here / "model")
    pairs = write_pairs(here / "pairs.jsonl", dialogue_pairs(17))
    load("train_dpo")(
        str(model), str(pairs), save_path="out", ckpt_path="checkpoints", log_to="tensorboard", **TRAINING
    )
    lines = [json.loads(line) for line in (here / "out/metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    found = curves("out/tensorboard")
    per_s = found.pop("updates_per_s")
    assert per_s[-1][0] == 3
    assert found == {
        name: [(line["step"], line[name]) for line in lines] for name in lines[0] if name != "step"
    }
    record = json.loads((here / "out/run.json").read_text())
    assert record["numbers"]["loss"] == pytest.approx(lines[-1]["loss"], rel=1e-5)


def test_the_published_flags_mean_the_same():
    def kinds(**flags):
        made = TrackerSettings(**flags).destination()
        return made.kinds, made.folder

    assert kinds() == kinds(log_to="none") == kinds(use_wandb="false") == ((), None)
    assert kinds(use_wandb="True") == kinds(log_to="wandb") == kinds(use_wandb="True", log_to="wandb")
    assert kinds(use_tensorboard="there") == (("tensorboard",), "there")
    assert kinds(use_tensorboard="there", use_wandb="True") == (("tensorboard", "wandb"), "there")
    for flags in ({"use_wandb": "True", "log_to": "none"}, {"use_tensorboard": "x", "log_to": "trackio"}):
        with pytest.raises(UsageError, match=f"--log_to {flags['log_to']} and --use_.* contradict"):
            kinds(**flags)


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({}, ()),
        ({"use_wandb": True}, ("wandb",)),
        ({"use_wandb": True, "tensorboard": True}, ("tensorboard", "wandb")),
        ({"use_wandb": True, "log_to": "trackio"}, ("trackio",)),
        ({"use_wandb": True, "log_to": "none"}, ()),
        ({"log_to": "comet"}, "log_to must be"),
    ],
)
def test_of_an_online_run_log_to_goes_before_the_published_switches(config, kinds):
    usual = {"log_to": None, "use_wandb": False, "tensorboard": False, "project_name": "p", "run_name": "r"}
    if isinstance(kinds, tuple):
        found = destination_of(usual | config)
        assert found.kinds == kinds
        assert ("wandb" in found.may_lack) == ("log_to" not in config)  # published configurations ask for it
        return
    with pytest.raises(UsageError, match=kinds):
        destination_of(usual | config)


@pytest.mark.parametrize("kind", tracking.KINDS)
def test_a_package_that_is_missing_is_told_before_anything_is_written(kind, here, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"sweet_rl\[{kind}\]"):
        count("out.txt", log_to=kind)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("how", ["key", "offline", "netrc", None, "shared"])
def test_wandb_needs_a_login_or_is_kept_offline(how, here, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    modes = {"key": ("WANDB_API_KEY", "x" * 40), "offline": ("WANDB_MODE", "offline")}
    modes["shared"] = ("WANDB_MODE", "shared")  # a mode that goes on line
    if how in modes:
        monkeypatch.setenv(*modes[how])
    elif how == "netrc":
        (here / "home").mkdir()
        (here / "home/.netrc").write_text("machine api.wandb.ai\n  login user\n  password secret\n")
    destination = tracking.Destination(("wandb",))
    if how not in {None, "shared"}:
        assert tracking.usable_trackers(destination) == destination
        return
    with pytest.raises(UsageError, match=r"no login to wandb: .*WANDB_MODE=offline"):
        tracking.usable_trackers(destination)


@pytest.mark.parametrize("lacks", ["package", "login", "network", "run"])
def test_the_published_flag_gives_way_with_a_note_and_its_key_is_kept_nowhere(
    lacks, here, monkeypatch, capsys
):
    destination = TrackerSettings(use_wandb="0123456789abcdef").destination()
    assert os.environ.pop("WANDB_API_KEY") == "0123456789abcdef"
    if lacks != "login":
        monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    if lacks != "package":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9" if lacks != "run" else "")
    if lacks == "run":
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **_: 1 / 0))
    begun = time.monotonic()
    kept = tracking.usable_trackers(destination)
    made = tracking.open_trackers(kept, folder=here, run="r", stage="s", continues=False, config={})
    assert (made, time.monotonic() - begun < 5) == ([], True)
    notes = capsys.readouterr().err.splitlines()
    assert [note.startswith("Note: the run goes on without wandb. ") for note in notes] == [True]


def test_a_tracker_that_fails_is_told_of_and_the_run_goes_on(here, monkeypatch, capsys):
    class Full:
        def log(self, step, numbers):
            raise OSError("No space left on device")

        def close(self):
            raise AssertionError("it is not asked again")

    monkeypatch.setattr("sweet_rl.runs.record.usable_trackers", lambda destination: destination)
    monkeypatch.setattr("sweet_rl.runs.record.open_trackers", lambda destination, **about: [Full()])
    count("out.txt", log_to="tensorboard")
    assert (here / "out.txt").read_text() == "1\n2\n3\n"
    assert capsys.readouterr().err.count("Full has failed and gets no more numbers: No space left") == 1


def test_wandb_keeps_a_run_offline_and_gets_no_secrets(here, monkeypatch):
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MY_API_KEY", "very-secret-words")
    count("out.txt", log_to="wandb", key="very-secret-words")
    record = json.loads((here / "out.txt.run.json").read_text())
    (file,) = here.glob("wandb/offline-run-*/*.wandb")
    assert record["id"] in file.name
    stored = file.read_bytes()
    assert b"loss" in stored
    assert b"[secret]" in stored
    assert b"very-secret-words" not in stored


def test_trackio_keeps_a_run_and_goes_on_with_it(here):
    pytest.importorskip("trackio", reason="the extra trackio is not installed")
    code = (
        "import sys; from tests.test_trackers import count\n"
        "count('out.txt', log_to='trackio', first=int(sys.argv[1]), last=int(sys.argv[2]))"
    )
    where = {"TRACKIO_DIR": str(here / "kept"), "PYTHONPATH": ":".join(sys.path), "HOME": str(here)}
    for first, last in (("1", "2"), ("3", "4")):
        subprocess.run([sys.executable, "-c", code, first, last], check=True, env=where)
    record = json.loads((here / "out.txt.run.json").read_text())
    listing = [sys.executable, "-m", "trackio.cli", "get", "metric", "--project", "sweet_rl", "--json"]
    listing += ["--run", f"count-{record['id']}", "--metric", "loss"]
    found = json.loads(subprocess.run(listing, check=True, env=where, capture_output=True).stdout)
    assert [(one["step"], one["value"]) for one in found["values"]] == [(n, n / 4) for n in range(1, 5)]
