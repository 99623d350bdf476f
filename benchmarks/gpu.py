"""Everything that one GPU can show, part by part: `make bench-gpu`, 40 minutes at most, nothing downloaded.

Parity of each attention and precision with the CPU; DPO steps at the shapes of SmolLM2, Llama 1B and 8B (ours, TRL,
published layout) with MFU on distinct tokens, and the largest history of each; ranking and sampling in
process and by vLLM; updates of ArCHer and Reflect-RL. Models are made from a config and a seed.

Each part runs in a process of its own and leaves a JSON file in the folder. A part that has a file is not
run again (`--again` runs those that failed), so an interrupted run is continued by the same command; not with
other settings, on another commit or card, whose numbers would be mixed. A part that fails has its error in
the file, and the others go on. At the end, and by `--table`, Markdown tables.

Run: python benchmarks/gpu.py outputs/bench-gpu [--vllm .venv-vllm/bin/python] [--parts "dpo 1b"]
On a machine without a GPU: python benchmarks/gpu.py FOLDER --size tiny, which measures nothing of interest.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import _measure
from _gpu_dpo import COMPILED, CONTENDERS, FLEX, ONE_BY_ONE, OURS, PUBLISHED
from _gpu_parity import WAYS
from _gpu_shapes import peak_tflops

from sweet_rl.records import replace_file
from sweet_rl.runs import facts

MOST_SECONDS = 420
"""Of any part: a machine may be lent for minutes only."""


@dataclass(frozen=True)
class Part:
    """A function `module:function` of this folder, its options, and the seconds that it may take at most."""

    name: str
    work: str
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 240


FULL: dict[str, Any] = {
    "parity": {"shape": "small", "history": 600, "response": 24},
    "shapes": ("1b", "8b"),
    "dpo": {"history": 2048, "response": 64, "steps": 4, "shortest": 1.0},
    "more": {
        "1b, activations kept": {"shape": "1b_kept"},
        "1b, histories of 1,024 to 2,048": {"shape": "1b", "steps": 16, "shortest": 0.5},
        "1b, histories of 128": {"shape": "1b", "history": 128},
        "135m": {"shape": "135m"},
        "8b, all weights": {"shape": "8b_all_weights"},
    },
    "history": {"history": 4096, "response": 64, "longest": 131_072},
    "model": {
        "width": 2048,
        "inner": 8192,
        "layers": 16,
        "queries_per_key": 4,
        "vocabulary": 128_256,
        "dtype": "bfloat16",
    },
    "ranking": {"history": 2048, "response": 64, "candidates": 16, "turns": 8, "rounds": 5},
    "sampling": {"dialogues": 64, "turns": 10, "max_batch": 64},
    "flight": {
        "points": (32, 64, 128, 256, 512, 1024),
        "model": {"width": 576, "inner": 1536, "layers": 30, "queries_per_key": 3, "vocabulary": 49_152},
        "turns": 6,
        "checked": 4,
        "dtype": "bfloat16",
    },
    "archer": {"rows": 256, "draws": 5.0, "size": "small"},
    "reflect": {"rows": 4, "steps": 6, "layers": 12, "width": 768, "tuning": 120, "repeats": 2, "threads": 4},
}
TINY: dict[str, Any] = {
    "parity": {"shape": "tiny", "history": 40, "response": 6},
    "shapes": ("tiny", "tiny_lora"),
    "dpo": {"history": 40, "response": 6, "steps": 3, "shortest": 1.0},
    "more": {
        "tiny, histories of 20 to 40": {"shape": "tiny", "steps": 3, "shortest": 0.5},
        "tiny, histories of 8": {"shape": "tiny", "history": 8},
    },
    "history": {"history": 32, "response": 6, "longest": 64},
    "model": {
        "width": 64,
        "inner": 0,
        "layers": 1,
        "queries_per_key": 1,
        "vocabulary": 500,
        "dtype": "float32",
    },
    "ranking": {"history": 40, "response": 6, "candidates": 3, "turns": 2, "rounds": 1},
    "sampling": {"dialogues": 2, "turns": 2, "max_batch": 2},
    "flight": {
        "points": (2, 4),
        "model": {"width": 64, "inner": 64, "layers": 1, "queries_per_key": 1, "vocabulary": 500},
        "turns": 2,
        "checked": 2,
        "dtype": "float32",
    },
    "archer": {"rows": 8, "draws": 0.1, "size": "tiny"},
    "reflect": {"rows": 2, "steps": 2, "layers": 1, "width": 64, "tuning": 2, "repeats": 1, "threads": 1},
}


def parts_of(size: str, *, vllm: str | None) -> dict[str, Part]:
    of = {"full": FULL, "tiny": TINY}[size]
    parts = [
        *(Part(f"parity: {way}", "_gpu_parity:parity", {**of["parity"], "way": way}, 180) for way in WAYS),
        *_steps(of),
        *_of_others(of, vllm),
        *(
            Part(
                f"history {shape}: {contender}",
                "_gpu_dpo:largest_history",
                {**of["history"], "shape": shape, "contender": contender},
            )
            for shape in of["shapes"]
            for contender in (FLEX, OURS, ONE_BY_ONE, PUBLISHED)
        ),
    ]
    return {part.name: part for part in parts}


def _steps(of: dict[str, Any]) -> list[Part]:
    def step(name: str, work: str, shape: str, contender: str, **more: Any) -> Part:
        options = {**of["dpo"], "shape": shape, "contender": contender, **more}
        return Part(name, f"_gpu_dpo:{work}", options)

    return [
        *(step(f"kernels {shape}", "kernels", shape, FLEX) for shape in of["shapes"]),
        *(
            step(f"dpo {shape}: {contender}", "steps", shape, contender)
            for shape in of["shapes"]
            for contender in CONTENDERS
        ),
        *(
            step(f"dpo {name}: {contender}", "steps", contender=contender, **more)
            for name, more in of["more"].items()
            for contender in (CONTENDERS if "history" in more else (OURS, FLEX, COMPILED))
        ),
    ]


def _of_others(of: dict[str, Any], vllm: str | None) -> list[Part]:
    def with_model(name: str, server: str | None) -> Part:
        work = {"ranking": "rank", "sampling": "sample"}[name]
        options = {**of["model"], **of[name], "vllm": server}
        return Part(f"{name}: vLLM" if server else name, f"_gpu_use:{work}", options, MOST_SECONDS)

    servers = [None, vllm] if vllm else [None]
    reflect = {"world": "taxi", "history": False, **of["reflect"]}
    flight = dict(of["flight"])
    points = flight.pop("points")
    flight |= flight.pop("model")
    archer = {"utterance": 8.0, "threads": 0, "max_tokens_per_batch": 4096, **of["archer"]}
    return [
        *(with_model(name, server) for name in ("ranking", "sampling") for server in servers),
        *(
            Part(
                f"135m, {point} dialogues at once{': vLLM' if server else ''}",
                "_gpu_use:flight",
                {**flight, "dialogues": point, "vllm": server},
                MOST_SECONDS,
            )
            for point in points
            for server in servers
        ),
        *(
            Part(f"archer: {name}", "_gpu_use:archer", {**archer, "side": side, **more}, MOST_SECONDS)
            for name, side, more in (
                ("ours", "ours", {}),
                ("ours, 32,768 tokens at once", "ours", {"max_tokens_per_batch": 32_768}),
                ("ours, causal critic", "causal", {}),
                ("published arithmetic", "plain", {}),
            )
        ),
        Part("reflect", "_gpu_use:reflect", reflect, MOST_SECONDS),
    ]


LOG_LINES = 20  # Of a process that ended without a word
SAME = ("size", "options", "peak_tflops", "card", "packages", "commit")
"""What parts in one folder must agree in with a run that goes on."""


def main() -> None:
    arguments = _arguments()
    parts = parts_of(arguments.size, vllm=arguments.vllm)
    if arguments.run is not None:
        _write(_file(arguments.folder, arguments.run), _in_this_process(parts[arguments.run], arguments))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        run(parts, arguments)
    shown = table(arguments.folder, {name: _read(_file(arguments.folder, name)) for name in parts})
    (arguments.folder / "table.md").write_text(shown)
    print(shown)


def run(parts: dict[str, Part], arguments: argparse.Namespace) -> None:
    import torch

    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device. Run this where there is one; --size tiny tries all on a CPU.")
    deadline = time.monotonic() + 60 * arguments.minutes
    wanted = [name for name in parts if any(name.startswith(one) for one in arguments.parts)]
    if not wanted:
        sys.exit(f"--parts {' '.join(arguments.parts)}: no part begins so. There are: {'; '.join(parts)}.")
    for part in parts.values():
        _agrees(_file(arguments.folder, part.name), circumstances(part, arguments))
    for name in wanted:
        file = _file(arguments.folder, name)
        kept = _read(file)
        if kept is not None and not (arguments.again and "rows" not in kept):
            print(f"{name}: there already", flush=True)
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            print(f"{name}: not run, {arguments.minutes:g} minutes are used up", flush=True)
            continue
        print(f"{name} ...", flush=True)
        file.unlink(missing_ok=True)
        _in_a_process(parts[name], left, arguments)
        print(f"{name}: {state(_read(file))}", flush=True)


def _agrees(file: Path, now: dict[str, Any]) -> None:
    kept = _read(file)
    for what in SAME if kept is not None else ():
        if kept[what] != now[what]:
            sys.exit(
                f"{file} was measured with {what} {kept[what]}, this run has {now[what]}: "
                "take another folder, or remove the file to measure the part again."
            )


def _in_a_process(part: Part, left: float, arguments: argparse.Namespace) -> None:
    name, seconds = part.name, min(left, part.seconds)
    file = _file(arguments.folder, name)
    log = file.with_suffix(".log")
    command = [sys.executable, __file__, str(arguments.folder), "--run", name, *_flags(arguments)]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(arguments.folder.resolve() / "kernels"),
    }
    with log.open("w") as output:
        try:
            done = subprocess.run(
                command, stdout=output, stderr=output, timeout=seconds, env=environment, check=False
            )
            died = f"its process ended with code {done.returncode}"
        except subprocess.TimeoutExpired:
            if left < part.seconds:
                return
            died = f"it took longer than {seconds:.0f} s and was stopped"
    if _read(file) is None:
        last = " / ".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        _write(file, {**circumstances(part, arguments), "error": f"{died}: {last[-2000:]}"})


def _in_this_process(part: Part, arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    if not arguments.device.startswith("cuda"):
        torch.compiler.set_stance("force_eager")  # nothing to be gained by minutes of compiling
    return outcome(part, arguments)


def circumstances(part: Part, arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    card = None
    if arguments.device.startswith("cuda"):
        memory = torch.cuda.get_device_properties(0).total_memory
        card = f"{torch.cuda.get_device_name()}, {memory / 2**30:.0f} GiB"
    return {
        "part": part.name,
        "size": arguments.size,
        "options": part.options,
        "peak_tflops": arguments.peak_tflops or (peak_tflops(torch.cuda.get_device_name()) if card else None),
        **_measure.circumstances(),
        "card": card,
        "packages": {**facts.versions(), "torch": torch.__version__, "cuda": torch.version.cuda},
    }


def outcome(part: Part, arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    found = circumstances(part, arguments)
    began = time.perf_counter()
    module, _, function = part.work.partition(":")
    options = argparse.Namespace(**part.options, device=arguments.device, seconds=part.seconds)
    options.peak_tflops = found["peak_tflops"]
    try:
        found["rows"] = getattr(importlib.import_module(module), function)(options)
    except ModuleNotFoundError as error:  # peers are optional
        found["rows"] = [{"remark": f"not installed: {error.name}"}]
    except (Exception, SystemExit) as error:
        full = any(isinstance(one, torch.OutOfMemoryError) for one in (error, error.__cause__))
        found["out_of_memory" if full else "error"] = f"{type(error).__name__}: {_first_line(error)}"
    found["seconds"] = time.perf_counter() - began
    return found


def state(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not run"
    if "rows" in found:
        return f"done in {found['seconds']:.0f} s"
    return "out of memory" if "out_of_memory" in found else f"failed: {found['error'][:200]}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _file(folder: Path, name: str) -> Path:
    return folder / f"{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')}.json"


def _read(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _write(file: Path, found: dict[str, Any]) -> None:
    replace_file(file, [json.dumps(found, indent=1).encode(), b"\n"])


def _flags(arguments: argparse.Namespace) -> list[str]:
    flags = ["--size", arguments.size, "--device", arguments.device]
    for name in ("vllm", "peak_tflops"):
        if getattr(arguments, name) is not None:
            flags += [f"--{name}", str(getattr(arguments, name))]
    return flags


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for the files; a run that was interrupted goes on there")
    parser.add_argument("--size", choices=("full", "tiny"), default="full", help="tiny: a try on a CPU")
    parser.add_argument("--parts", nargs="+", default=[""], help="only those whose names begin so")
    parser.add_argument("--minutes", type=float, default=40, help="after which no further part is begun")
    parser.add_argument("--again", action="store_true", help="run parts again that found nothing")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table")
    parser.add_argument("--vllm", help="interpreter of an environment that has vLLM")
    parser.add_argument("--peak_tflops", type=float, help="of the card in bfloat16, where it is not known")
    parser.add_argument("--device", help="default: cuda; with --size tiny cpu")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.device = arguments.device or ("cpu" if arguments.size == "tiny" else "cuda")
    return arguments


# ---- the table

Columns: TypeAlias = dict[str, tuple[str, str, float]]  # Heading, name in a row, format, factor

APART: Columns = {  # The same of the first table: largest differences
    "log-probabilities of tokens differ by": ("logprob_apart", "{:.1e}", 1),
    "gradients by, of their length": ("gradient_apart", "{:.1e}", 1),
}
COLUMNS: Columns = {  # Of all other parts
    "s": ("s", "{:.3f}", 1),
    "over the first's": ("over_first", "{:.2f}", 1),
    "tokens/s": ("tokens_s", "{:,.0f}", 1),
    "distinct tokens/s": ("distinct_tokens_s", "{:,.0f}", 1),
    "MFU": ("mfu", "{:.1f} %", 100),
    "peak GiB": ("peak_gib", "{:.1f}", 1),
}


def table(folder: Path, found: dict[str, dict[str, Any] | None]) -> str:
    done = [part for part in found.values() if part is not None]
    return "\n".join([*_head(folder, done), "", *lines_of(found), ""])


def lines_of(found: dict[str, dict[str, Any] | None]) -> list[str]:
    parity = {name: part for name, part in found.items() if name.startswith("parity")}
    times = {name: part for name, part in found.items() if name not in parity}
    tables = [_lines(parts, columns) for parts, columns in ((parity, APART), (times, COLUMNS)) if parts]
    return [*tables[0], *(line for table in tables[1:] for line in ("", *table))]


def _lines(found: dict[str, dict[str, Any] | None], columns: Columns) -> list[str]:
    lines = [f"| | {' | '.join(columns)} | |", "|---" * (len(columns) + 2) + "|"]
    firsts: dict[str, float] = {}  # of parts that do the same work: their names up to the colon are alike
    for name, part in found.items():
        group = name.partition(":")[0]
        for row in rows_of(part):
            if "s" in row and not group.startswith("history"):
                row["over_first"] = row["s"] / firsts.setdefault(group, row["s"])
            side = f", {row['side']}" if "side" in row else ""
            remark = "" if "logprob_apart" in row else row.get("remark", "")
            cells = [
                form.format(factor * row[key]) if row.get(key) is not None else ""
                for key, form, factor in columns.values()
            ]
            cells.append(remark.replace("|", "/").replace("\n", " "))
            lines.append(f"| {name}{side} | {' | '.join(cells)} |")
    return lines


def _head(folder: Path, done: list[dict[str, Any]]) -> list[str]:
    def all_of(key: str) -> str:
        return "; ".join(dict.fromkeys(str(part[key]) for part in done if part.get(key)))

    torches = "; ".join(
        dict.fromkeys(f"torch {part['packages']['torch']}" for part in done if "packages" in part)
    )
    sizes = "; ".join(dict.fromkeys(part["size"] for part in done))
    lines = [
        f"Machine: {all_of('card') or 'no GPU'}; {all_of('machine')}; {torches}",
        f"Commit: {all_of('commit')}",
        f"Command: `python benchmarks/gpu.py {folder} --size {sizes}`",
    ]
    return [f"{line}  " for line in lines]  # two spaces: a line of its own


def rows_of(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    if part is None:
        return [{"remark": "not run"}]
    if "rows" in part:
        rows: list[dict[str, Any]] = part["rows"]
        return rows
    return [{"remark": "out of memory" if "out_of_memory" in part else f"failed: {part['error'][:300]}"}]


if __name__ == "__main__":
    main()
