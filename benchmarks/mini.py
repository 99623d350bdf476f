"""The mini study over several seeds: does step-level credit help, and when?

Every seed has its own warm start (made from nothing), its own tasks, dialogues and trainings. All methods of
a seed learn from the same dialogues. Settings were chosen on mini:dev; the test tasks are for this.

Run: python benchmarks/mini.py [--seeds 0,1,2] [--world usual] [--output benchmarks/results/mini_usual.json]
(about a quarter of an hour for each seed on two cores; an interrupted run resumes where it stopped)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from _machine import machine_line

from sweet_rl.studies.results import Method, Results
from sweet_rl.studies.sweet.recipe import Study
from sweet_rl.studies.sweet.results import results

T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}
"""Student's t at 97.5 %, by degrees of freedom."""


def main() -> None:
    """Run every seed that is not done, then print and save the table."""
    arguments = _arguments()
    folder = Path(arguments.folder)
    studies = [_study(seed, folder, arguments) for seed in arguments.seeds]
    summary = summarise(studies, arguments.seeds) | {
        "machine": machine_line(),
        "world": arguments.world,
        "split": "dev" if arguments.dev else "test",
        "settings": dict(studies[0].settings),
    }
    print(f"\n{table(summary)}")
    if arguments.output:
        Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.output).write_text(json.dumps(summary, indent=1) + "\n")


def _study(seed: int, folder: Path, arguments: argparse.Namespace) -> Results:
    agent, output = folder / f"agent{seed}", folder / f"{arguments.world}{seed}"
    if arguments.agent:
        agent = arguments.agent
    elif not (agent / "tokenizer.json").exists():
        _run("make_embedded_agent", str(agent), "--seed", str(seed), "--overwrite", "--quiet")
    command = ["demo", "--output_dir", str(output), "--agent", str(agent), "--seed", str(seed)]
    command += ["--world", arguments.world, "--test_tasks", str(arguments.test_tasks)]
    command += ["--train_tasks", str(arguments.train_tasks), "--page_tasks", str(arguments.page_tasks)]
    _run(*command, *(["--dev"] if arguments.dev else []))
    study = Study(output, str(agent), human="", seed=seed, world=arguments.world)
    split, train, test = "dev" if arguments.dev else "test", arguments.train_tasks, arguments.test_tasks
    return results(replace(study, test_split=split, train_tasks=train, test_tasks=test), {})


def _run(*command: str) -> None:
    subprocess.run([sys.executable, "-m", "sweet_rl", *command], check=True)


def summarise(studies: Sequence[Results], seeds: Sequence[int]) -> dict[str, Any]:
    """Means over seeds with 95 % intervals (Student's t), the seeds' own numbers, and paired differences."""
    parts = [study.comparisons[0] for study in studies]
    verdicts = [measure.name for measure in parts[0].measures if measure.group == "behaviour"]
    sweet = [_mean(part.method("sweet"), "success") for part in parts]
    methods, critics = [], []
    for name in (method.name for method in parts[0].methods if method.mean("success") is not None):
        ours = [part.method(name) for part in parts]
        success = [_mean(one, "success") for one in ours]
        methods.append(
            {
                "name": name,
                "title": ours[0].title,
                "success": interval(success),
                "by_seed": dict(zip(map(str, seeds), success, strict=True)),
                "tests_passed": interval([_mean(one, "tests_passed") for one in ours]),
                "sweet_minus_this": interval([a - b for a, b in zip(sweet, success, strict=True)]),
                "usual_share": statistics.mean(one.mean("usual_share") or 0 for one in ours),
                "examples": [one.facts.get("examples") for one in ours],
                "updates": [one.facts.get("updates") for one in ours],
                "verdicts": {each: statistics.mean(_mean(one, each) for one in ours) for each in verdicts},
            }
        )
        if ours[0].mean("auc_questions") is not None:
            areas = {
                key: interval([_mean(one, key) for one in ours]) for key in ("auc_questions", "auc_answering")
            }
            critics.append({"name": name, "title": ours[0].title, **areas})
    return {"seeds": list(seeds), "methods": methods, "critics": critics}


def _mean(method: Method, measure: str) -> float:
    mean = method.mean(measure)
    if mean is None:
        raise SystemExit(f"{method.title} has no {measure}: more tasks are needed.")
    return mean


def interval(values: Sequence[float]) -> dict[str, float | None]:
    """Mean with its 95 % interval over seeds; no interval for a single one."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return {"mean": mean, "low": None, "high": None}
    half = T_975[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def table(summary: dict[str, Any]) -> str:
    """Markdown, for docs/mini.md."""
    seeds = summary["seeds"]
    head = [f"seed {seed}" for seed in seeds]
    what = f"success % on mini:{summary['world']}:{summary['split']}"
    more = "mean, 95 % interval | SWEET-RL minus this | usual extras asked | examples | updates"
    lines = [f"| {what} | {' | '.join(head)} | {more} |", "|---" * (len(seeds) + 6) + "|"]
    for method in summary["methods"]:
        cells = [f"{100 * value:.1f}" for value in method["by_seed"].values()]
        lines.append(
            f"| {method['title']} | {' | '.join(cells)} | {_shown(method['success'])} "
            f"| {_shown(method['sweet_minus_this'])} | {method['usual_share']:.2f} "
            f"| {_listed(method['examples'])} | {_listed(method['updates'])} |"
        )
    lines += ["", "| critic | AUC questions | AUC answering |", "|---|---|---|"]
    lines += [
        f"| {critic['title']} | {_shown(critic['auc_questions'], 1)} | {_shown(critic['auc_answering'], 1)} |"
        for critic in summary["critics"]
    ]
    return "\n".join(lines)


def _shown(value: dict[str, float | None], factor: int = 100) -> str:
    digits = 1 if factor == 100 else 2
    low, high = value["low"], value["high"]
    mean = f"{factor * (value['mean'] or 0):.{digits}f}"
    return (
        mean
        if low is None or high is None
        else f"{mean} [{factor * low:.{digits}f}, {factor * high:.{digits}f}]"
    )


def _listed(values: Sequence[int | None]) -> str:
    return ", ".join("" if value is None else str(value) for value in values)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--world", choices=["usual", "easy"], default="usual")
    parser.add_argument("--agent", help="what all seeds begin with; default: one made from nothing for each")
    parser.add_argument("--train_tasks", type=int, default=600)
    parser.add_argument("--test_tasks", type=int, default=500)
    parser.add_argument("--page_tasks", type=int, default=4, help="web pages that designers draw")
    parser.add_argument("--dev", action="store_true", help="measure on mini:dev")
    parser.add_argument("--folder", default="outputs/mini")
    parser.add_argument("--output", help="file for the numbers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
