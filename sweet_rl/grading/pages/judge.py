"""Compares two answers to one task by a vision model that sees three pictures.

A model is asked twice, with the answers in both orders, because the place of a picture sways it. Only a
verdict that survives the exchange counts; otherwise the page is a tie.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from PIL import Image

from sweet_rl.grading.pages.metrics import decode
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.statistics import Estimate, share_over_tasks
from sweet_rl.types import Failure, Json

_VERDICT = re.compile(r"VERDICT\W{1,4}(FIRST|SECOND|TIE)\b", re.IGNORECASE)
_CAPTIONS = ("The page that was wanted:", "Page FIRST:", "Page SECOND:")
_SHOWN = 2000


class Outcome(StrEnum):
    """Which run's page is nearer to the target."""

    A = "a"
    B = "b"
    TIE = "tie"


ORDERS = ("ab", "ba")
"""Which run's page is shown first."""


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
        self.name = model
        self._client, self._prompt, self._max_tokens = client, prompt, max_tokens

    async def compare(self, target: bytes, first: bytes, second: bytes, *, order: str) -> Verdict:
        """One request; PNG pictures in the order in which they are shown."""
        pictures = zip(_CAPTIONS, (target, first, second), strict=True)
        content: list[Json] = [{"type": "text", "text": self._prompt}]
        for caption, picture in pictures:
            url = f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"
            content += [{"type": "text", "text": caption}, {"type": "image_url", "image_url": {"url": url}}]
        body = {
            "model": self.name,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self._max_tokens,
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
        return Verdict(None, text[:_SHOWN], Failure("malformed_verdict", text[-200:]))
    word = found[-1].upper()
    if word == "TIE":
        return Verdict(Outcome.TIE, text[:_SHOWN])
    return Verdict(Outcome(order[0] if word == "FIRST" else order[1]), text[:_SHOWN])


def settled(verdicts: Sequence[Verdict]) -> Outcome | None:
    """What both orders say together: their common verdict, else a tie; None where one is missing."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if None in outcomes or not outcomes:
        return None
    return outcomes.pop() if len(outcomes) == 1 else Outcome.TIE


def without_asking(first: bytes | None, second: bytes | None) -> Outcome | None:
    """What needs no judge: equal pictures are a tie, a picture wins against none."""
    if first == second:
        return Outcome.TIE
    if first is None or second is None:
        return Outcome.B if first is None else Outcome.A
    return None


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

    @property
    def text(self) -> str:
        """Wins, ties, losses and the rate with its interval, on one line for people."""
        total = self.wins + self.ties + self.losses
        if not total:
            return "No page has an outcome: there is no win rate."
        return (
            f"A wins {self.wins}, ties {self.ties}, loses {self.losses} of {total} pages; "
            f"win rate {self.rate} % (a tie is half a win; 95 % interval over tasks)"
        )


def win_rate(outcomes: Sequence[tuple[str, Outcome]]) -> WinRate:
    """Fold (task_id, outcome) of each page into the win rate of run A."""
    points = {Outcome.A: 1.0, Outcome.TIE: 0.5, Outcome.B: 0.0}
    by_task: dict[str, list[float]] = {}
    for task_id, outcome in outcomes:
        by_task.setdefault(task_id, []).append(points[outcome])
    verdicts = [outcome for _, outcome in outcomes]
    counts = (verdicts.count(Outcome.A), verdicts.count(Outcome.TIE), verdicts.count(Outcome.B))
    return WinRate(*counts, share_over_tasks(list(by_task.values())))
