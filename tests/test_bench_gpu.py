"""`make bench-gpu` in its tiny form on a CPU: what its parts find, and what becomes of those that fail."""

import argparse
import json
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "parity: sdpa, float32",
        "parity: flex_attention, float32",
        "dpo tiny: ours",
        "dpo tiny_lora: published layout",
        "dpo tiny_lora: TRL",
        "history tiny: ours",
        "ranking",
        "sampling",
        "135m, 2 dialogues at once",
        "dpo tiny_lora: flash-pref",
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
        if "same" in row:
            assert (row["same"], row["ms_a_step"] > 0) == (1, True)
            assert row["apart"] < 1e-4
        if row.get("remark") == "not installed: flash_pref":
            continue
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


def test_the_page_says_what_a_gpu_gave(bench):
    from gpu import lines_of

    kept = json.loads((ROOT / "benchmarks/results/gpu_h100.json").read_text())
    page = (ROOT / "benchmarks/results/README.md").read_text().splitlines()
    lines = [line for line in lines_of(kept["alone"]) if line]
    assert len(lines) == 2 * 2 + len(kept["alone"])
    assert [line for line in page if line in lines and not line.startswith("|---")] == [
        line for line in lines if not line.startswith("|---")
    ]


def test_a_run_goes_on_where_it_was_but_not_from_other_settings_or_commits(bench, tmp_path, monkeypatch):
    ran, parts = [], {name: bench.Part(name, "", {"rows": 1}) for name in ("a", "b")}

    def run(part, _left, arguments):
        ran.append(part.name)
        found = {"error": "no"} if part.name == "b" else {"rows": []}
        bench._write(
            bench._file(tmp_path, part.name), bench.circumstances(part, arguments) | {"seconds": 1} | found
        )

    monkeypatch.setattr(bench, "_in_a_process", run)
    for again in (False, False, True):  # failures are tried again only when asked
        bench.run(parts, asked(tmp_path, again=again))
    assert ran == ["a", "b", "b"]
    with pytest.raises(SystemExit, match="with size tiny, this run has full: take another folder"):
        bench.run(parts, asked(tmp_path, size="full"))
    monkeypatch.setattr(bench.facts, "library", lambda: {"commit": "other", "changed": False})
    with pytest.raises(SystemExit, match=r"a.json was measured with commit .*, this run has other"):
        bench.run(parts, asked(tmp_path, parts=["b"]))


def test_a_peak_is_known_or_not_guessed(bench):
    from _gpu_shapes import peak_tflops

    known = {"NVIDIA H100 80GB HBM3": 989, "NVIDIA H100 PCIe": 756, "NVIDIA GeForce RTX 4090": 165}
    unknown = ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H20", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    assert {card: peak_tflops(card) for card in (*known, *unknown)} == known | dict.fromkeys(unknown)
