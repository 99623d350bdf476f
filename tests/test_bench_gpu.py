"""`make bench-gpu` in its tiny form on a CPU: what its parts find, and what becomes of those that fail."""

import argparse
import json
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")

BENCHMARKS = str(ROOT / "benchmarks")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(sys, "path", [BENCHMARKS, *sys.path])
    import gpu

    return gpu


def asked(folder, **changes):
    what = {"folder": folder, "size": "tiny", "device": "cpu", "parts": [""], "minutes": 5, "again": False}
    return argparse.Namespace(**(what | {"vllm": None, "peak_tflops": 1e-3} | changes))


@pytest.mark.parametrize(
    "name",
    [
        "parity: sdpa, float32",
        "parity: sdpa, autocast",
        "parity: flex_attention, float32",
        "dpo tiny: ours",
        "dpo tiny, histories of 20 to 40: ours",
        "dpo tiny_lora: ours",
        "dpo tiny_lora: published layout",
        "dpo tiny_lora: TRL",
        "history tiny: ours",
        "ranking",
        "sampling",
        "archer: ours",
        "reflect",
    ],
)
def test_a_part_finds_numbers(bench, tmp_path, name):
    import torch

    if "TRL" in name:
        pytest.importorskip("trl")
        pytest.importorskip("datasets")
    with torch.compiler.set_stance("force_eager"):
        found = bench.outcome(bench.parts_of("tiny", vllm=None)[name], asked(tmp_path))
    assert "rows" in found, found
    if name.startswith("parity"):
        assert [row.get("side") for row in found["rows"]] == [
            None,
            "padded rows",
            "64 above a multiple of 128",
        ]
    for row in found["rows"]:
        assert row.get("s", 1) > 0
        if name.startswith("parity"):
            assert row["logprob_apart"] < (1e-5 if "float32" in name else 1e-2)
            assert row.get("gradient_apart", 0) < (1e-4 if "float32" in name else 0.1)
        if name.startswith("dpo"):
            assert row["mfu"] > 0
            assert row["distinct_tokens_s"] < row["tokens_s"] / 3


def test_a_part_that_fails_says_why_and_has_no_numbers(bench, tmp_path, monkeypatch):
    sys.modules.pop("made_part", None)
    (tmp_path / "made_part.py").write_text(
        "import torch\nfrom sweet_rl.errors import ServiceError\n"
        "def full(_):\n    raise torch.OutOfMemoryError('no GiB left\\nmore words')\n"
        "def told(_):\n    try:\n        full(_)\n    except torch.OutOfMemoryError as error:\n"
        "        raise ServiceError('lower the batch') from error\n"
        "def wrong(_):\n    raise ValueError('a | b')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    of = {name: bench.Part(name, f"made_part:{name}") for name in ("full", "told", "wrong")}
    found = {name: bench.outcome(part, asked(tmp_path)) for name, part in of.items()}
    assert found["full"]["out_of_memory"] == "OutOfMemoryError: no GiB left"
    assert found["told"]["out_of_memory"] == "ServiceError: lower the batch"
    assert found["wrong"]["error"] == "ValueError: a | b"
    assert all("rows" not in one for one in found.values())
    shown = bench.table(tmp_path, found | {"later": None})
    assert "| full |  |  |  |  |  |  | out of memory |" in shown
    assert "| wrong |  |  |  |  |  |  | failed: ValueError: a / b |" in shown
    assert "| later |  |  |  |  |  |  | not run |" in shown


def test_the_table_has_ratios_of_parts_that_do_the_same_work(bench, tmp_path):
    def part(*seconds):
        return {"size": "tiny", "rows": [{"side": str(one), "s": one, "mfu": 0.25} for one in seconds]}

    shown = bench.table(tmp_path, {"dpo: ours": part(2), "dpo: TRL": part(5, 1), "history: a": part(3)})
    assert "| dpo: ours, 2 | 2.000 | 1.00 |  |  | 25.0 % |  |  |" in shown
    assert "| dpo: TRL, 5 | 5.000 | 2.50 |" in shown
    assert "| dpo: TRL, 1 | 1.000 | 0.50 |" in shown
    assert "| history: a, 3 | 3.000 |  |" in shown


def test_the_page_says_what_a_gpu_gave(bench):
    from gpu import lines_of

    kept = json.loads((ROOT / "benchmarks/results/gpu_h100.json").read_text())
    page = (ROOT / "docs/performance.md").read_text().splitlines()
    lines = [line for line in lines_of(kept["alone"]) if line]
    assert len(lines) == 2 * 2 + len(kept["alone"])
    assert [line for line in page if line in lines and not line.startswith("|---")] == [
        line for line in lines if not line.startswith("|---")
    ]


def test_a_process_that_dies_without_a_word_is_a_failure(bench, tmp_path, monkeypatch):
    reflect, ranking = bench.Part("reflect", "", seconds=5), bench.Part("ranking", "", seconds=0.01)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    bench._in_a_process(reflect, 60, asked(tmp_path))
    found = json.loads((tmp_path / "reflect.json").read_text())
    assert found["error"].startswith("its process ended with code 1")
    assert found["commit"]
    monkeypatch.setattr(sys, "executable", sys.prefix + "/bin/python")
    bench._in_a_process(ranking, 60, asked(tmp_path))
    assert "longer than 0 s" in json.loads((tmp_path / "ranking.json").read_text())["error"]


def test_a_part_that_the_end_of_the_minutes_stops_is_not_run_and_no_failure(bench, tmp_path):
    bench._in_a_process(bench.Part("ranking", ""), 0.01, asked(tmp_path))
    assert not (tmp_path / "ranking.json").exists()


@pytest.fixture
def ran(bench, tmp_path, monkeypatch):
    """Names of the parts that ran, which find nothing if they are called b."""
    names = []

    def run(part, _left, arguments):
        names.append(part.name)
        found = bench.circumstances(part, arguments) | {"seconds": 1}
        found |= {"error": "no"} if part.name == "b" else {"rows": []}
        bench._write(bench._file(tmp_path, part.name), found)

    monkeypatch.setattr(bench, "_in_a_process", run)
    return names


def test_what_is_there_is_not_run_again_and_failures_only_when_asked(bench, tmp_path, ran):
    import torch

    parts = {name: bench.Part(name, "") for name in ("a", "b")}
    bench.run(parts, asked(tmp_path, minutes=0))
    assert ran == []
    for again in (False, False, True):
        bench.run(parts, asked(tmp_path, again=again))
    assert ran == ["a", "b", "b"]
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="no CUDA device"):
            bench.run(parts, asked(tmp_path, device="cuda"))
    with pytest.raises(SystemExit, match="no part begins so"):
        bench.run(parts, asked(tmp_path, parts=["c"]))


def test_a_run_does_not_go_on_from_other_settings_or_another_commit(bench, tmp_path, ran, monkeypatch):
    parts = {name: bench.Part(name, "", {"rows": 1}) for name in ("a", "b")}
    bench.run(parts, asked(tmp_path, parts=["a"]))
    with pytest.raises(SystemExit, match="with size tiny, this run has full: take another folder"):
        bench.run(parts, asked(tmp_path, size="full"))
    with pytest.raises(SystemExit, match=r"with options \{'rows': 1\}, this run has \{'rows': 2\}"):
        bench.run({**parts, "a": bench.Part("a", "", {"rows": 2})}, asked(tmp_path))
    with pytest.raises(SystemExit, match=r"with peak_tflops 0.001, this run has 2"):
        bench.run(parts, asked(tmp_path, peak_tflops=2))
    monkeypatch.setattr(bench.facts, "library", lambda: {"commit": "other", "changed": False})
    with pytest.raises(SystemExit, match=r"a.json was measured with commit .*, this run has other"):
        bench.run(parts, asked(tmp_path, parts=["b"]))
    assert ran == ["a"]


def test_the_command_runs_parts_in_processes_and_prints_a_table(tmp_path):
    command = [sys.executable, f"{BENCHMARKS}/gpu.py", str(tmp_path), "--size", "tiny", "--parts"]
    command += ["parity: sdpa, float32", "parity: sdpa, 4 bits"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^\| parity: sdpa, float32 \| \d\.\de.\d\d \| \d\.\de.\d\d \|  \|$", done.stdout, re.MULTILINE
    )
    assert "Command: `python benchmarks/gpu.py" in done.stdout
    assert (tmp_path / "table.md").read_text() in done.stdout
    written = json.loads((tmp_path / "parity_sdpa_float32.json").read_text())
    assert written["rows"][0]["logprob_apart"] < 1e-5
    assert written["commit"]
    four = json.loads((tmp_path / "parity_sdpa_4_bits.json").read_text())
    assert ("rows" in four) != ("error" in four)  # without bitsandbytes it says so


def test_shapes_are_those_of_the_models_they_are_named_after(bench):
    from _gpu_shapes import SHAPES, Work, made

    for name, weights in (("1b", 1_235_814_400), ("8b", 8_030_261_248)):
        model = made(SHAPES[name], "meta")
        assert sum(parameter.numel() for parameter in model.parameters()) == weights
        linear = sum(module.weight.numel() for module in model.modules() if type(module).__name__ == "Linear")
        linear -= model.lm_head.weight.numel()
        passes = 2 if SHAPES[name].lora_rank else 3
        assert Work(1, 0, 0).flops(SHAPES[name]) == 2 * passes * linear
        assert Work(0, 0, 1).flops(SHAPES[name]) == 2 * passes * model.lm_head.weight.numel()


def test_work_is_that_of_the_distinct_tokens(bench):
    from _gpu_dpo import Data
    from _gpu_shapes import Work, work_of

    from sweet_rl.training.batches import Collator, Reader

    pairs = Data(history=3, response=2, pairs_of_turn=1, turns=1, steps=1).pairs(500)
    reading = Collator("sum", Reader(0))([(pair, 1.0) for pair in pairs])
    assert work_of(reading) == Work(distinct_tokens=5, pairs_of_tokens=1 + 2 + 3 + 4 + 4, asked=3)


@pytest.mark.parametrize(
    ("card", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H20", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("Another card", None),
    ],
)
def test_a_peak_is_known_or_not_guessed(bench, card, peak):
    from _gpu_shapes import peak_tflops

    assert peak_tflops(card) == peak
