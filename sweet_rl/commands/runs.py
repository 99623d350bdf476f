"""What runs have left, as tables: where outputs came from, and which of two runs is better, task by task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, suggestion
from sweet_rl.flags import Settings, flag, group
from sweet_rl.flags.shared import HtmlPath, Overwriting
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file
from sweet_rl.runs.facts import now, runs_below


@group("What is listed")
class RunsFlags(Settings):
    folder: str = flag(".", "folder to search, with all its subfolders.")
    run: str | None = flag(None, "id of a run, or the beginning of one: show its whole record.")
    json: bool = flag(False, "print everything as JSON.")


@stage("folder", "run")
def runs(flags: RunsFlags, /) -> None:
    """List the runs whose outputs are in a folder: what made each file, when, from what, and at what cost.

    Every stage writes a record with its outputs: run.json in a folder, FILE.run.json beside a file. The table
    is sorted by date. No file is changed.
    """
    if not Path(flags.folder).is_dir():
        raise UsageError(f"There is no folder {flags.folder!r}.")
    found = [
        (one.place, dict(one.content) | {"status": one.status}) for one in runs_below(Path(flags.folder))
    ]
    if flags.run is not None:
        ids = [str(content["id"]) for _, content in found]
        fitting = [content for _, content in found if str(content["id"]).startswith(flags.run)]
        if not fitting:
            raise UsageError(
                f"No run in {flags.folder!r} begins with {flags.run!r}{suggestion(flags.run, ids)}."
            )
        if len(fitting) > 1:
            raise UsageError(
                f"{flags.run!r} begins {len(fitting)} runs: {', '.join(str(one['id']) for one in fitting)}."
            )
        print(json.dumps(fitting[0], indent=1))
    elif flags.json:
        print(json.dumps({"runs": [row | {"record": str(place)} for place, row in found]}, indent=1))
    elif found:
        rows = ["id,stage,status,started,wall s,output,models,seed,tokens in,out,cost".split(",")]
        for _, content in found:
            used = [(model, row) for models in content["usage"].values() for model, row in models.items()]
            outputs = [str(output["path"]) for output in content.get("outputs") or []]
            tokens = []  # with a sign where some are not known; dollars are unknown where a price is
            for name in ("prompt_tokens", "completion_tokens"):
                known = sum(row[name] or 0 for _, row in used)
                whole = all(row[name] is not None and not row["replies_without_usage"] for _, row in used)
                said = f"{known:,}" if whole else f">{known:,}" if known else "unknown"
                tokens.append(said if used else "-")
            cost = content.get("cost")
            dollars = "-" if cost is None else "unknown" if cost["usd"] is None else f"${cost['usd']:.4f}"
            cells = [str(content[name]) for name in ("id", "stage", "status")]
            cells += [str(content.get("started"))[:16].replace("T", " ")]
            cells += [f"{float(content.get('wall_s') or 0.0):,.1f}"]
            cells += [
                (outputs[0] if outputs else "-") + (f" +{len(outputs) - 1}" if len(outputs) > 1 else "")
            ]
            cells += [", ".join(dict.fromkeys(model or "?" for model, _ in used)) or "-"]
            cells += [", ".join(map(str, (content.get("seeds") or {}).values())) or "-"]
            rows.append([*cells, *tokens, dollars])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        print(f"No run has left a record in {flags.folder}.")


@group("Comparison and output")
class CompareFlags(HtmlPath, Overwriting):
    interval: Literal["student", "bootstrap"] = flag(
        "student", "interval of the differences over tasks: Student's t, or a paired bootstrap."
    )
    dialogues: int = flag(
        12,
        "with --html: number of tasks to show that only the first run solves, and of those that only the other one solves.",
        at_least=0,
    )
    force: bool = flag(
        False,
        "compare the tasks that the runs share even if their task lists, worlds, humans, rules or graders "
        "differ, or a file is damaged or still being written; the page says so at the top.",
    )


@recorded("compare")
@stage(helps={"overwrite": "replace the page and its JSON file if they exist."})
def compare(flags: CompareFlags, /, *runs: str) -> None:
    """Compare runs of the same tasks: the first one with each of the others.

    A run is a file of trajectories or a folder of `sweet-rl eval`; or all runs are trainings (a folder or its
    metrics.jsonl). The table shows the paired difference of every number with its interval; wins, losses and
    ties; a p-value (McNemar's exact test if every task has one success or failure, else a paired t test);
    differences by kind of task and by number of turns; tasks that only one run solves. --html writes a page
    with the dialogues side by side. Runs with different tasks, humans, rules or graders are refused.

    The smallest comparison:
    sweet-rl eval --model expert --num_tasks 50 --output_dir a
    sweet-rl eval --model random --num_tasks 50 --output_dir b
    sweet-rl compare a b

    Args:
        flags: how, and where to.
        runs: two or more runs.
    """
    if len(runs) < 2:
        raise UsageError("Name at least two runs, for example: sweet-rl compare evals/a evals/b")
    from sweet_rl.evaluation import comparison
    from sweet_rl.evaluation.comparison import Source, Training, labels_of, opened
    from sweet_rl.evaluation.page import comparison_page

    page = None if flags.html is None else Path(flags.html)
    if page is not None:
        if page.suffix == ".json":
            raise UsageError(
                f"--html {flags.html!r} must end in .html; the numbers are written beside it as .json."
            )
        for place in (page, page.with_suffix(".json")):
            new_file(place, "html", overwrite=flags.overwrite)
    for path in runs:
        tracking.reads("runs", path)
    found = [opened(path) for path in runs]
    played = [one for one in found if isinstance(one, Source)]
    trained = [one for one in found if isinstance(one, Training)]
    if played and trained:
        raise UsageError(
            f"{trained[0].label!r} is a training run and {played[0].label!r} has episodes: compare runs of one kind."
        )
    if trained:
        if page is not None:
            raise UsageError(
                "Trainings are drawn together by `sweet-rl view RUN RUN`, and with --export as a page."
            )
        print(comparison.trainings_text(trained, labels_of([str(one.path) for one in trained])))
        return
    result, text = comparison.compared(played, interval=flags.interval, force=flags.force), ""
    if page is not None:  # before the table: who reads its first lines alone has the page all the same
        made = {"made": now()[:10], "command": tracking.current().command or ""}
        html = comparison_page(result, **made, dialogues=flags.dialogues)
        numbers = page.with_suffix(".json")
        tracking.writes(page)
        tracking.writes(numbers)
        replace_file(page, [html.encode("utf-8", "replace")])
        replace_file(numbers, [json.dumps(made | result.to_json(), indent=1).encode() + b"\n"])
        text = f"\n\nThe page is {page}, its numbers are in {numbers}"
    print(f"{result}{text}")
