"""Two runs of Frontend Design compared page by page: rows paired, each pair judged, outcomes counted.

A vision model that sees three pictures is asked twice, with the answers in both orders, because the place of a
picture sways it. Only a verdict that survives the exchange counts; otherwise the page is a tie.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

from sweet_rl import tracking
from sweet_rl.browsers.page import Renderer, RenderFailed
from sweet_rl.cli.progress import Bar, judge_failed, write_report
from sweet_rl.cli.servers import client_of, key_in
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, UsageError
from sweet_rl.grading.pages.grader import answer_picture
from sweet_rl.grading.pages.metrics import BrokenPicture, decode
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Journal, load_trajectories
from sweet_rl.runs import new_file
from sweet_rl.statistics import Estimate, share_over_tasks
from sweet_rl.types import Failure, Json, Trajectory, digest

if TYPE_CHECKING:
    from sweet_rl.worlds.frontend_design.stages import JudgeFlags

PROMPT = "judge_html_prompt.txt"
_NAMED_BY = "--hostname and --port, or --base_url, name the judge's server, --judge its model."
_VERDICT = re.compile(r"VERDICT\W{1,4}(FIRST|SECOND|TIE)\b", re.IGNORECASE)
_CAPTIONS = ("The page that was wanted:", "Page FIRST:", "Page SECOND:")
_SHOWN = 2000

RENDERING = frozenset({"browser", "network", "allow_scripts", "viewport"})
"""What grades without a model depend on besides the pages (`graded_with`)."""

ORDERS = ("ab", "ba")
"""Which run's page is shown first."""

UNPAIRED = "rows without a partner in the other run"
FAILED = "pages whose episode failed in one of the runs: in no number above"
NO_TARGET = "pages whose target gives no picture: in no number above"
MALFORMED = "malformed_verdict"
NO_VERDICT = "pages without a verdict in both orders: in no number above"
DISAGREED = "pages on which the two orders differ: ties"
UNASKED = "pages decided without asking: equal pictures, or only one run has one"


class Outcome(StrEnum):
    """Which run's page is nearer to the target."""

    A = "a"
    B = "b"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one request; without an outcome, `failure` names the cause ("timeout", ...)."""

    outcome: Outcome | None
    reply: str = ""
    failure: Failure | None = None


class VisionJudge:
    """Shows a model the target and two pages and asks which is nearer.

    Args:
        client: connections to the servers; closed with the judge.
        model: the servers' name for the model.
        prompt: the model's instructions before it sees the pictures.
        max_tokens: of its reply.
    """

    def __init__(self, client: OpenAIClient, model: str, *, prompt: str, max_tokens: int = 512) -> None:
        self._client = client
        self.question = {"model": model, "prompt": prompt, "max_tokens": max_tokens}
        """What a verdict depends on besides the pictures."""

    async def compare(self, target: bytes, first: bytes, second: bytes, *, order: str) -> Verdict:
        """One request; PNG pictures in the order in which they are shown."""
        content: list[Json] = [{"type": "text", "text": self.question["prompt"]}]
        for caption, picture in zip(_CAPTIONS, (target, first, second), strict=True):
            url = f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"
            content += [{"type": "text", "text": caption}, {"type": "image_url", "image_url": {"url": url}}]
        body = {
            "model": self.question["model"],
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self.question["max_tokens"],
            "temperature": 0,
        }
        try:
            reply = await self._client.chat(body)
        except RequestFailed as error:
            return Verdict(None, failure=error.failure)
        return read_verdict(reply.content, order=order)

    async def close(self) -> None:
        """Close the connections to the judge's server."""
        await self._client.close()


def read_verdict(text: str, *, order: str) -> Verdict:
    """The last verdict in a reply, as the run that it means; none is the failure "malformed_verdict"."""
    found = _VERDICT.findall(text)
    if not found:
        return Verdict(None, text[:_SHOWN], Failure(MALFORMED, text[-200:]))
    meant = {"FIRST": order[0], "SECOND": order[1], "TIE": "tie"}
    return Verdict(Outcome(meant[found[-1].upper()]), text[:_SHOWN])


def settled(verdicts: Sequence[Verdict]) -> Outcome | None:
    """What both orders say together: their common verdict, else a tie; None where one is missing."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if None in outcomes:
        return None
    return outcomes.pop() if len(outcomes) == 1 else Outcome.TIE


def for_judge(data: bytes, most_pixels: int) -> bytes:
    """A picture as the judge is sent it: PNG in RGB, scaled down to `most_pixels` at most."""
    image = decode(data)
    if image.width * image.height > most_pixels:
        scale = (most_pixels / (image.width * image.height)) ** 0.5
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        image = image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class WinRate:
    """Pages won, tied and lost by run A; `rate` counts a tie as half a win.

    The interval is Wilson's over tasks: honest also where one run wins everywhere, and a little too wide
    where there are ties or several repeats of a task.
    """

    wins: int
    ties: int
    losses: int
    rate: Estimate


def win_rate(outcomes: Sequence[tuple[str, Outcome]]) -> WinRate:
    """Fold (task_id, outcome) of each page into the win rate of run A."""
    points = {Outcome.A: 1.0, Outcome.TIE: 0.5, Outcome.B: 0.0}
    by_task: dict[str, list[float]] = {}
    for task_id, outcome in outcomes:
        by_task.setdefault(task_id, []).append(points[outcome])
    wins, ties, losses = (sum(outcome is one for _, outcome in outcomes) for one in points)
    return WinRate(wins, ties, losses, share_over_tasks(list(by_task.values())))


class Pair(NamedTuple):
    """The same repeat of the same task in both runs."""

    a: Trajectory
    b: Trajectory


class Comparison:
    """Two trajectory files over the same tasks, paired by (task_id, sample_index)."""

    def __init__(self, flags: JudgeFlags) -> None:
        self._flags = flags
        path_a, path_b = flags.run_a, flags.run_b
        name = f".vs.{Path(path_b).stem}"  # what is named after both lies beside the first
        self.journal_path = flags.output_path or str(Path(path_a).with_suffix(f"{name}.jsonl"))
        self._report_path = flags.report_path or str(Path(path_a).with_suffix(f"{name}.report.json"))
        runs: list[dict[tuple[str, int], Trajectory]] = [{}, {}]
        repair = "Both must be runs over the same tasks."
        for path, found in zip((path_a, path_b), runs, strict=True):
            for trajectory in load_trajectories(path):
                if found.setdefault(trajectory.key, trajectory) is not trajectory:
                    named = "task_id, sample_index"
                    raise DataError("is there twice", path=path, field=named, value=trajectory.key)
        every = [Pair(one, runs[1][key]) for key, one in runs[0].items() if key in runs[1]]
        self.pairs = [pair for pair in every if not (pair.a.failed or pair.b.failed)]
        if not self.pairs:
            what = "no page has an episode in both that did not fail" if every else "no row in common"
            raise UsageError(f"{path_a!r} and {path_b!r}: {what} (task_id and sample_index). {repair}")
        for pair in self.pairs:
            if pair.a.task.ground_truth != pair.b.task.ground_truth:
                task, problem = pair.b.task.task_id, "wants another page than the row of the other run"
                raise DataError(problem, path=path_b, field="task", value=task, repair=repair)
        lost = {UNPAIRED: sum(map(len, runs)) - 2 * len(every), FAILED: len(every) - len(self.pairs)}
        self._counts = Counter(lost)

    async def by_judge(self, judge: VisionJudge, renderer: Renderer) -> list[Failure]:
        """Ask about every pair in both orders; print and write the result. Returns why the judge could not be asked
        about a page, for each such page."""
        found: dict[int, Outcome] = {}
        lost: list[Failure] = []
        most_pixels = self._flags.max_pixels
        with Journal(self.journal_path, overwrite=self._flags.overwrite) as journal:
            tracking.writes(self.journal_path, continues=True)
            known = {
                row.get("question"): Verdict(
                    Outcome(row["outcome"]) if row.get("outcome") else None,
                    row.get("reply", ""),
                    Failure(**row["failure"]) if row.get("failure") else None,
                )
                for _, row in journal.rows
            }

            async def ask(pair: Pair, order: str, target: bytes, answers: tuple[bytes, bytes]) -> Verdict:
                shown = answers if order == "ab" else answers[::-1]
                pictures = [digest(picture.hex()) for picture in (target, *shown)]
                key = digest([judge.question, order, *pair.a.key, *pictures])
                verdict = known.get(key)
                if verdict is None or (verdict.failure and verdict.failure.kind != MALFORMED):
                    verdict = await judge.compare(target, *shown, order=order)
                    await journal.append_soon(
                        {
                            "task_id": pair.a.task.task_id,
                            "sample_index": pair.a.sample_index,
                            "order": order,
                            "outcome": verdict.outcome.value if verdict.outcome else None,
                            "reply": verdict.reply,
                            "failure": asdict(verdict.failure) if verdict.failure else None,
                            "judge": judge.question["model"],
                            "question": key,
                        }
                    )
                return verdict

            async def outcome_of(pair: Pair) -> tuple[Outcome | None, str]:
                """The outcome and, where there is none or it took no or two different verdicts, why."""
                first, second = await asyncio.to_thread(self._pictures, pair, most_pixels)
                if first == second:
                    return Outcome.TIE, UNASKED
                if first is None or second is None:  # a picture wins against none
                    return Outcome.B if first is None else Outcome.A, UNASKED
                try:
                    page = await renderer.render(pair.a.task.ground_truth)
                    target = await asyncio.to_thread(for_judge, page.image, most_pixels)
                except (RenderFailed, BrokenPicture):
                    return None, NO_TARGET
                verdicts = [await ask(pair, order, target, (first, second)) for order in ORDERS]
                failures = (one.failure for one in verdicts)
                lost.extend([one for one in failures if one and one.kind != MALFORMED][:1])
                outcome = settled(verdicts)
                differ = DISAGREED if verdicts[0].outcome != verdicts[1].outcome else ""
                return outcome, NO_VERDICT if outcome is None else differ

            async def work(index: int) -> None:
                outcome, remark = await outcome_of(self.pairs[index])
                self._counts[remark] += 1
                if outcome is not None:
                    found[index] = outcome
                bar.update()

            with Bar(len(self.pairs), 0, unit="page", quiet=self._flags.quiet) as bar:
                await for_each(range(len(self.pairs)), work, at_once=self._flags.batch_size)
                await journal.flush()
        outcomes = [(self.pairs[index].a.task.task_id, found[index]) for index in sorted(found)]
        self._report(f"{judge.question['model']}, asked in both orders", outcomes)
        print(f"Every verdict is in {self.journal_path}")
        return lost

    def by_metric(self) -> None:
        """The higher stored grade wins; print and write the result."""
        metric, margin, paths = self._flags.metric, self._flags.margin, (self._flags.run_a, self._flags.run_b)
        outcomes, ways = list[tuple[str, Outcome]](), list[Json]()
        for pair in self.pairs:
            grades = [trajectory.extra.get("grades") for trajectory in pair]
            for path, trajectory, of in zip(paths, pair, grades, strict=True):
                if not isinstance(of, dict) or (of and metric not in of):
                    raise UsageError(
                        f"{path!r} has rows without the grade {metric!r}, like task {pair.a.task.task_id!r}. "
                        "Run sweet-rl evaluate_html on it first, with the same flags for both runs."
                    )
                way = (trajectory.extra.get("graded_with") or {}).items()
                if of:
                    ways.append({name: value for name, value in way if metric == "clip" or name in RENDERING})
                if ways and ways[-1] != ways[0]:
                    raise UsageError(
                        f"The runs were graded in different ways: {paths[0]!r} with {ways[0]}, {path!r} with "
                        f"{ways[-1]}. Run sweet-rl evaluate_html on both with the same flags."
                    )
            first, second = ((of or {}).get(metric) for of in grades)
            if first is None or second is None:
                self._counts[NO_TARGET] += 1
            else:
                nearer = Outcome.A if first > second else Outcome.B
                tie = abs(first - second) <= margin
                outcomes.append((pair.a.task.task_id, Outcome.TIE if tie else nearer))
        self._report(f"{metric} (a difference up to {margin:g} is a tie)", outcomes)

    def _report(self, by: str, outcomes: Sequence[tuple[str, Outcome]]) -> None:
        result, path_a, path_b = win_rate(outcomes), self._flags.run_a, self._flags.run_b
        text = "No page has an outcome: there is no win rate."
        if outcomes:
            text = (
                f"A wins {result.wins}, ties {result.ties}, loses {result.losses} of {len(outcomes)} pages; "
                f"win rate {result.rate} % (a tie is half a win; 95 % interval over tasks)"
            )
        print(f"A: {path_a}\nB: {path_b}\njudge: {by}\n\n{text}\n")
        del self._counts[""]
        for label, count in self._counts.items():
            if count:
                print(f"{count:>6}  {label}")
        content = {"run_a": path_a, "run_b": path_b, "judge": by, "counts": dict(self._counts)}
        write_report(path_a, self._report_path, content | asdict(result))

    def _pictures(self, pair: Pair, most_pixels: int) -> tuple[bytes | None, bytes | None]:
        """Both answers as the judge is sent them; None where there is no picture."""
        found = [
            answer_picture(trajectory.answer, Path(path).parent).data
            for trajectory, path in zip(pair, (self._flags.run_a, self._flags.run_b), strict=True)
        ]
        first, second = (for_judge(data, most_pixels) if data else None for data in found)
        return first, second


def compare(flags: JudgeFlags) -> None:
    """Compare by a metric, or find the judge's server, start the browsers, and ask."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.openai_client import base_url_from

    if flags.report_path is not None:
        try:  # the report of an earlier comparison of the same two runs is replaced
            found = json.loads(Path(flags.report_path).read_bytes())
            same = (found["run_a"], found["run_b"]) == (flags.run_a, flags.run_b)
        except (OSError, ValueError, LookupError, TypeError):
            same = False
        if not same:
            new_file(flags.report_path, "report_path", overwrite=flags.overwrite)
    comparison = Comparison(flags)
    if flags.judge == "metrics":
        comparison.by_metric()
        return
    key_in(flags.api_key_var)
    prompt = load_prompt(flags.prompt_path or PROMPT)
    urls = base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.base_url)

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
            model = flags.judge
            if model == "auto":
                models = await client.models()
                if not models:
                    raise UsageError("The server offers no model; name one with --judge.")
                model = str(models[0]["id"])
            async with open_renderer(flags.rendering()) as renderer:
                judge = VisionJudge(client, model, prompt=prompt, max_tokens=flags.max_tokens)
                lost = await comparison.by_judge(judge, renderer)
            kept = (
                f"{comparison.journal_path} holds the verdicts; the same command asks for the others again."
            )
            judge_failed(
                len(lost), len(comparison.pairs), next(iter(lost), None), noun="pages", kept=kept, flag=""
            )
        finally:
            await client.close()

    asyncio.run(main())
