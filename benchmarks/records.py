"""What a record (run.json) costs a stage, and how one of every stage looks.

Run: python benchmarks/records.py            # the cost
     python benchmarks/records.py --page [DEMO ...]   # docs/runs_of_each_stage.md, by the tests that run all
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from _measure import heading

from sweet_rl import tracking
from sweet_rl.cli import stages
from sweet_rl.cli.stage import recorded
from sweet_rl.runs.facts import digest_of
from sweet_rl.runs.reading import runs_below

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/runs_of_each_stage.md"
TESTS = ("tests/commands/test_recording.py", "tests/commands/reflect/test_documented.py")
FULL = "simulate_interactions"


@recorded("a stage", reads=("source",))
def stage(output: str, source: str | None = None) -> None:
    """Write a line.

    Args:
        output: the file.
        source: not read.
    """
    plain(output, source)


def plain(output: str, source: str | None = None) -> None:
    """The same without a record."""
    del source
    tracking.writes(output)
    Path(output).write_text("{}\n", encoding="utf-8")


def milliseconds(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def cost(runs: int, mib: int) -> None:
    print(heading())
    with tempfile.TemporaryDirectory() as folder:
        output, large, weights = (f"{folder}/{name}" for name in ("a.jsonl", "large.jsonl", "w.safetensors"))
        started = time.perf_counter()
        stage(output)
        first = time.perf_counter() - started
        for name in (large, weights):
            with Path(name).open("wb") as file:
                file.writelines(b"x" * (1 << 20) for _ in range(mib))
        print(f"a stage that does nothing          {milliseconds(lambda: plain(output), runs):8.2f} ms")
        print(f"the same with a record             {milliseconds(lambda: stage(output), runs):8.2f} ms")
        print(f"the first record of a process      {1000 * first:8.2f} ms")
        for label, name in ((f"a file of {mib} MiB", large), (f"{mib} MiB of weights", weights)):
            started = time.perf_counter()
            digest_of(Path(name))
            print(f"digest of {label:<24} {1000 * (time.perf_counter() - started):8.2f} ms, beside the work")


def page(folders: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *TESTS,
            f"--basetemp={folder}/runs",
            "-p",
            "no:cacheprovider",
        ]
        subprocess.run(command, cwd=ROOT, check=True)
        found: dict[str, Mapping[str, Any]] = {}
        for place in (*folders, folder):
            for run in runs_below(Path(place)):
                found.setdefault(str(run.content["stage"]), run.content)
    missing = [name for name in stages() if name not in found]
    print(f"no record of: {', '.join(missing)}")
    parts = [
        "# A record of each stage",
        "",
        "Made by `python benchmarks/records.py --page`: what the tests leave that run every stage, as small",
        "as it gets. What a record says is explained in [runs.md](runs.md). First a whole one, then of every",
        "other stage what is its own. Tests begin make_embedded_agent and demo_reflect, and stop them.",
        "",
        f"## {FULL}",
        "",
        block(found[FULL]),
    ]
    for name in stages():
        if name in found and name != FULL:
            parts += ["", f"## {name}", "", block(excerpt(found[name]))]
    text = "\n".join(parts).replace(f"{ROOT}/", "").replace(f"{folder}/runs/", "")
    for place in folders:
        text = text.replace(str(Path(place).resolve().parent), "/home/me/project")
    PAGE.write_text(f"{text}\n", encoding="utf-8")
    print(f"{len(found)} stages are in {PAGE}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", nargs="*", metavar="DEMO", help="write the page; folders of demos that ran")
    parser.add_argument("--runs", type=int, default=20, help="of which the cost is the median")
    parser.add_argument("--mib", type=int, default=1024, help="size of the files that are digested")
    flags = parser.parse_args()
    if flags.page is None:
        cost(flags.runs, flags.mib)
    else:
        page(flags.page)


def excerpt(content: Mapping[str, Any]) -> dict[str, Any]:
    kept = (
        "id",
        "status",
        "wall_s",
        "command",
        "outputs",
        "usage",
        "cost",
        "seeds",
        "inputs",
        "error",
        "replaces",
    )
    return {key: shortened(content[key]) for key in kept if content.get(key)}


def shortened(value: Any) -> Any:
    if isinstance(value, list):
        return [shortened(one) for one in value]
    if isinstance(value, dict):
        return {
            key: one[:12] + "..." if key == "sha256" else shortened(one)
            for key, one in value.items()
            if key != "mtime"
        }
    return value


def block(content: Mapping[str, Any]) -> str:
    lines = []
    for key, value in content.items():
        text = json.dumps(value)
        if len(text) > 110 and isinstance(value, list | dict):
            items = (
                value
                if isinstance(value, list)
                else [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            )
            rows = ",\n".join(f"    {one if isinstance(value, dict) else json.dumps(one)}" for one in items)
            text = f"[\n{rows}\n  ]" if isinstance(value, list) else f"{{\n{rows}\n  }}"
        lines.append(f"  {json.dumps(key)}: {text}")
    return "```json\n{\n" + ",\n".join(lines) + "\n}\n```"


if __name__ == "__main__":
    main()
