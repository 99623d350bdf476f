"""The work of `judge_html` after its flags are checked: pair the rows, judge each pair, count."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sweet_rl import tracking
from sweet_rl.browsers.page import Renderer, RenderFailed
from sweet_rl.command_line.running import judge_failed, progress, write_report
from sweet_rl.command_line.servers import client_of, key_in
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, UsageError, suggestion
from sweet_rl.grading.pages.answers import answer_picture
from sweet_rl.grading.pages.judge import (
    ORDERS,
    Outcome,
    Verdict,
    VisionJudge,
    WinRate,
    by_grade,
    for_judge,
    settled,
    win_rate,
    without_asking,
)
from sweet_rl.grading.pages.looks import Looks
from sweet_rl.grading.pages.pictures import BrokenPicture
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Journal, load_trajectories
from sweet_rl.types import Failure, Json, Trajectory, digest

if TYPE_CHECKING:
    from sweet_rl.worlds.frontend_design.stages import JudgeFlags

PROMPT = "judge_html_prompt.txt"
_NAMED_BY = "--hostname and --port, or --base_url, name the judge's server, --judge its model."

RENDERING = frozenset({"browser", "network", "allow_scripts", "viewport"})
"""What grades without a model depend on besides the pages (`graded_with`)."""

UNPAIRED = "rows without a partner in the other run"
FAILED = "pages whose episode failed in one of the runs: in no number above"
NO_TARGET = "pages whose target gives no picture: in no number above"
MALFORMED = "malformed_verdict"
NO_VERDICT = "pages without a verdict in both orders: in no number above"
DISAGREED = "pages on which the two orders differ: ties"
UNASKED = "pages decided without asking: equal pictures, or only one run has one"


class Pair(NamedTuple):
    """The same repeat of the same task in both runs."""

    a: Trajectory
    b: Trajectory


@dataclass(frozen=True, slots=True)
class Runs:
    """Two trajectory files, paired by (task_id, sample_index).

    Besides the pairs: how many rows have no partner, and how many pairs hold an episode that failed.
    """

    path_a: str
    path_b: str
    pairs: tuple[Pair, ...]
    unpaired: int
    failed: int = 0


def load_runs(path_a: str, path_b: str) -> Runs:
    """Read both files and pair their rows."""
    by_key = [_by_key(path) for path in (path_a, path_b)]
    common = [key for key in by_key[0] if key in by_key[1]]
    if not common:
        raise UsageError(
            f"{path_a!r} and {path_b!r} have no row in common (task_id and sample_index). "
            "Both must be runs over the same tasks."
        )
    every = [Pair(by_key[0][key], by_key[1][key]) for key in common]
    pairs = tuple(pair for pair in every if not (pair.a.failed or pair.b.failed))
    if not pairs:
        raise UsageError(f"In {path_a!r} and {path_b!r} no page has an episode in both that did not fail.")
    for pair in pairs:
        if pair.a.task.ground_truth != pair.b.task.ground_truth:
            raise DataError(
                "wants another page than the row of the other run",
                path=path_b,
                field="task",
                value=pair.b.task.task_id,
                repair="Both must be runs over the same tasks.",
            )
    return Runs(path_a, path_b, pairs, sum(map(len, by_key)) - 2 * len(every), len(every) - len(pairs))


def run_by_metric(runs: Runs, metric: str, margin: float, report_path: str | None) -> None:
    """The higher stored grade wins; print and write the result."""
    _check_graded(runs, metric)
    outcomes, counts = [], Counter({UNPAIRED: runs.unpaired, FAILED: runs.failed})
    for pair in runs.pairs:
        first, second = ((trajectory.extra.get("grades") or {}).get(metric) for trajectory in pair)
        if first is None or second is None:
            counts[NO_TARGET] += 1
        else:
            outcomes.append((pair.a.task.task_id, by_grade(first, second, margin)))
    _report(runs, f"{metric} (a difference up to {margin:g} is a tie)", outcomes, counts, report_path)


@dataclass(frozen=True, slots=True)
class Judging:
    """How a judge is asked.

    Args:
        journal_path: where its verdicts are kept.
        question: what a verdict depends on besides the pictures.
        most_pixels: of a picture that it is sent.
        at_once: pages in work at a time.
        quiet: no progress bar.
        overwrite: verdicts that are there are thrown away.
    """

    journal_path: str
    question: Mapping[str, Json]
    most_pixels: int
    at_once: int = 8
    quiet: bool = False
    overwrite: bool = False


def start(runs: Runs, flags: JudgeFlags) -> None:
    """Find the judge, start the browsers, and `run_by_judge`."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.openai_client import base_url_from

    key_in(flags.api_key_var)
    prompt = load_prompt(flags.prompt_path or PROMPT)
    urls = base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.base_url)
    journal_path = flags.output_path or str(_beside(runs, ".jsonl"))
    named = any(flag is not None for flag in (flags.hostname, flags.port, flags.base_url))
    if not named and (meant := suggestion(flags.judge, ("metrics", "auto"), "--judge ")):
        raise UsageError(f"There is no --judge {flags.judge} here{meant}. A model answers through a server.")

    async def main() -> None:
        with tracking.role("judge"):
            client = client_of(
                urls,
                flags,
                key_var=flags.api_key_var,
                named_by=_NAMED_BY,
                max_connections=2 * flags.batch_size,
            )
        try:
            model = flags.judge if flags.judge != "auto" else await _first_model(client)
            judge = VisionJudge(client, model, prompt=prompt, max_tokens=flags.max_tokens)
            question = {"model": model, "prompt": prompt, "max_tokens": flags.max_tokens}
            job = Judging(
                journal_path, question, flags.max_pixels, flags.batch_size, flags.quiet, flags.overwrite
            )
            async with open_renderer(flags.rendering()) as renderer:
                lost = await run_by_judge(runs, job, judge, renderer, flags.report_path)
            kept = f"{journal_path} holds the verdicts; the same command asks for the others again."
            judge_failed(len(lost), len(runs.pairs), next(iter(lost), None), noun="pages", kept=kept, flag="")
        finally:
            await client.close()

    asyncio.run(main())


async def _first_model(client: OpenAIClient) -> str:
    models = await client.models()
    if not models:
        raise UsageError("The server offers no model; name one with --judge.")
    return str(models[0]["id"])


async def run_by_judge(
    runs: Runs, job: Judging, judge: VisionJudge, renderer: Renderer, report_path: str | None
) -> list[Failure]:
    """Ask about every pair in both orders; print and write the result.

    Returns why the judge could not be asked about a page, for each such page.
    """
    found: dict[int, Outcome] = {}
    counts = Counter({UNPAIRED: runs.unpaired, FAILED: runs.failed})
    with Journal(job.journal_path, overwrite=job.overwrite) as journal:
        tracking.writes(job.journal_path, continues=True)
        asking = _Asking(job, judge, renderer, journal)
        with progress(len(runs.pairs), 0, unit="page", quiet=job.quiet) as bar:

            async def work(index: int) -> None:
                outcome, remark = await asking.outcome_of(runs.pairs[index], runs)
                if remark:
                    counts[remark] += 1
                if outcome is not None:
                    found[index] = outcome
                bar.update()

            await for_each(range(len(runs.pairs)), work, at_once=job.at_once)
            await journal.flush()
    outcomes = [(runs.pairs[index].a.task.task_id, found[index]) for index in sorted(found)]
    _report(runs, f"{judge.name}, asked in both orders", outcomes, counts, report_path)
    print(f"Every verdict is in {job.journal_path}")
    return asking.lost


class _Asking:
    """Asks, and remembers in the journal; verdicts on other pictures than today's are not used."""

    def __init__(self, job: Judging, judge: VisionJudge, renderer: Renderer, journal: Journal) -> None:
        self._job, self._judge, self._renderer, self._journal = job, judge, renderer, journal
        self.lost: list[Failure] = []
        self._known = {
            row.get("question"): Verdict(
                Outcome(row["outcome"]) if row.get("outcome") else None,
                row.get("reply", ""),
                Failure(**row["failure"]) if row.get("failure") else None,
            )
            for _, row in journal.rows
        }

    async def outcome_of(self, pair: Pair, runs: Runs) -> tuple[Outcome | None, str]:
        """The outcome and, where there is none or it took more than one request, why."""
        first, second = await asyncio.to_thread(_pictures, pair, runs, self._job.most_pixels)
        decided = without_asking(first, second)
        if decided is not None or first is None or second is None:
            return decided, UNASKED
        try:
            page = await self._renderer.render(pair.a.task.ground_truth)
            target = await asyncio.to_thread(for_judge, page.image, self._job.most_pixels)
        except (RenderFailed, BrokenPicture):
            return None, NO_TARGET
        verdicts = [await self._verdict(pair, order, target, (first, second)) for order in ORDERS]
        outcome = settled(verdicts)
        self.lost += [one.failure for one in verdicts if one.failure and one.failure.kind != MALFORMED][:1]
        if outcome is None:
            return None, NO_VERDICT
        return outcome, DISAGREED if verdicts[0].outcome != verdicts[1].outcome else ""

    async def _verdict(self, pair: Pair, order: str, target: bytes, answers: tuple[bytes, bytes]) -> Verdict:
        shown = answers if order == "ab" else answers[::-1]
        pictures = [digest(picture.hex()) for picture in (target, *shown)]
        question = digest([dict(self._job.question), order, *pair.a.key, *pictures])
        known = self._known.get(question)
        if known is not None and (known.failure is None or known.failure.kind == MALFORMED):
            return known
        verdict = await self._judge.compare(target, *shown, order=order)
        await self._journal.append_soon(
            {
                "task_id": pair.a.task.task_id,
                "sample_index": pair.a.sample_index,
                "order": order,
                "outcome": verdict.outcome.value if verdict.outcome else None,
                "reply": verdict.reply,
                "failure": asdict(verdict.failure) if verdict.failure else None,
                "judge": self._judge.name,
                "question": question,
            }
        )
        return verdict


def is_report_of(run_a: str, run_b: str, path: str) -> bool:
    """Whether a file is the report of a comparison of the same two runs."""
    try:
        found = json.loads(Path(path).read_bytes())
        return (found["run_a"], found["run_b"]) == (run_a, run_b)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _pictures(pair: Pair, runs: Runs, most_pixels: int) -> tuple[bytes | None, bytes | None]:
    """Both answers as the judge is sent them; None where there is no picture."""
    folders = Path(runs.path_a).parent, Path(runs.path_b).parent
    found = [
        answer_picture(trajectory.answer, folder, Looks()).data
        for trajectory, folder in zip(pair, folders, strict=True)
    ]
    first, second = (for_judge(data, most_pixels) if data else None for data in found)
    return first, second


def _by_key(path: str) -> dict[tuple[str, int], Trajectory]:
    by_key: dict[tuple[str, int], Trajectory] = {}
    for trajectory in load_trajectories(path):
        if trajectory.key in by_key:
            raise DataError(
                "is there twice",
                path=path,
                field="task_id, sample_index",
                value=trajectory.key,
                repair="Two rows of one repeat cannot be distinguished; remove one, or number them.",
            )
        by_key[trajectory.key] = trajectory
    return by_key


def _check_graded(runs: Runs, metric: str) -> None:
    """Every row was graded by `evaluate_html`, and all in the same way."""
    ways = []
    for path, side in ((runs.path_a, 0), (runs.path_b, 1)):
        for pair in runs.pairs:
            extra = pair[side].extra
            grades = extra.get("grades")
            if not isinstance(grades, dict) or (grades and metric not in grades):
                raise UsageError(
                    f"{path!r} has rows without the grade {metric!r}, like task {pair[side].task.task_id!r}. "
                    "Run sweet-rl evaluate_html on it first, with the same flags for both runs."
                )
            if grades:
                way = (extra.get("graded_with") or {}).items()
                ways.append((path, {name: v for name, v in way if metric == "clip" or name in RENDERING}))
    for path, way in ways:
        if way != ways[0][1]:
            raise UsageError(
                f"The runs were graded in different ways: {ways[0][0]!r} with {ways[0][1]}, {path!r} with "
                f"{way}. Run sweet-rl evaluate_html on both with the same flags."
            )


def _report(
    runs: Runs,
    judge: str,
    outcomes: Sequence[tuple[str, Outcome]],
    counts: Mapping[str, int],
    report_path: str | None,
) -> None:
    result: WinRate = win_rate(outcomes)
    print(f"A: {runs.path_a}\nB: {runs.path_b}\njudge: {judge}\n\n{result.text}\n")
    for label, count in counts.items():
        if count:
            print(f"{count:>6}  {label}")
    content = {"run_a": runs.path_a, "run_b": runs.path_b, "judge": judge, "counts": dict(counts)}
    write_report(runs.path_a, report_path or str(_beside(runs, ".report.json")), content | asdict(result))


def _beside(runs: Runs, suffix: str) -> Path:
    return Path(runs.path_a).with_suffix(f".vs.{Path(runs.path_b).stem}{suffix}")
