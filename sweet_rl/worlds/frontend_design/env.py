"""The Frontend Design world of ColBench: the agent writes pages, a human who sees them replies.

A page in the visible text is rendered, and its picture is the answer until a later one takes its place. The
human sees the picture, never the source; the agent never sees the page that the human has in mind.

Published behaviour: docs/published/sweet_rl.md#frontend-design, #in-episodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from sweet_rl.browsers import PageContext, RenderedPage, Renderer, RenderFailed
from sweet_rl.browsers.page import extract_html
from sweet_rl.contracts import User
from sweet_rl.errors import EpisodeError
from sweet_rl.types import Failure, Json, StopReason, Task
from sweet_rl.worlds.dialogue import DialogueEnv, ParsedAction, parse_published


class Pictures(Protocol):
    """Where an episode's pictures go; see `sweet_rl.worlds.frontend_design.pictures.PictureFolder`."""

    def save_draft(self, task: Task, seed: int, turn: int, image: bytes) -> str:
        """Keep the picture of a turn (from 0) and return its path for the row."""
        ...

    def save_target(self, task: Task, image: bytes) -> str:
        """Keep the picture of the page that is wanted."""
        ...


class FrontendEnv(DialogueEnv):
    """One episode of Frontend Design.

    The row's further fields: `drafts`, one `{turn, image, failure}` for every turn with a page (`image` is
    null where `failure` says why), and `target_image`.

    Args:
        user: who answers, from a `PageContext`; shared by many episodes.
        renderer: pages to pictures; shared as well.
        pictures: keeps the pictures.
        max_turns: agent turns at most.
        parser: how the agent's text is read, one of `sweet_rl.worlds.dialogue.PARSERS`; the
            marker ends the episode and cuts nothing.
        stop_on_user_failure: end the episode when the human cannot be asked, instead of going on with the
            published "No response.".
        forget_answer: a draft without a picture takes away an earlier answer, as published.
    """

    reply_limit = 1000

    def __init__(
        self,
        user: User,
        renderer: Renderer,
        pictures: Pictures,
        *,
        max_turns: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        stop_on_user_failure: bool = False,
        forget_answer: bool = False,
    ) -> None:
        super().__init__(
            user,
            max_turns=max_turns,
            parser=parser,
            stop_on_user_failure=stop_on_user_failure,
        )
        self._renderer, self._pictures = renderer, pictures
        self._forget_answer = forget_answer

    async def _begin(self) -> None:
        """Render the page that is wanted; without it there is nothing to talk about."""
        self._draft: RenderedPage | None = None
        self._shown: RenderedPage | None = None
        self._drafts: list[dict[str, Json]] = []
        self._target_image: str | None = None
        try:
            self._target = await self._renderer.render(self._task.hidden_information)
        except RenderFailed as error:
            failure = _of_rendering(error, "the page that is wanted: ")
            raise EpisodeError(StopReason.WORLD_FAILED, failure) from error
        self._target_image = await asyncio.to_thread(
            self._pictures.save_target, self._task, self._target.image
        )

    async def _consider(self, parsed: ParsedAction) -> tuple[Failure, ...]:
        """Render the turn's page, if it has one."""
        html = extract_html(parsed.visible)[1]
        self._shown = self._draft
        if html is None:
            return ()
        turn = self._steps - 1
        try:
            page = await self._renderer.render(html)
        except RenderFailed as error:
            failure = self._now(_of_rendering(error))
            self._drafts.append({"turn": turn, "image": None, "failure": failure.kind})
            self._shown = None  # an older page would pass for what this turn looks like
            if self._forget_answer:
                self._draft, self._answer = None, None
            return (failure,)
        image = await asyncio.to_thread(self._pictures.save_draft, self._task, self._seed, turn, page.image)
        self._drafts.append({"turn": turn, "image": image, "failure": None})
        self._draft = self._shown = page
        self._answer = image
        return ()

    def _hand_in(self, _parsed: ParsedAction) -> str | None:
        return self._answer

    def _context(self) -> PageContext:
        return PageContext(
            problem_description=self._task.problem_description,
            hidden_information=self._task.hidden_information,
            messages=tuple(self._messages),
            target=self._target,
            draft=self._shown,
        )

    def _info(self) -> Mapping[str, Json]:
        return {"drafts": list(self._drafts), "target_image": self._target_image}


def _of_rendering(error: RenderFailed, where: str = "") -> Failure:
    """Kinds of the renderer as kinds of an episode: "timeout" there may be a server's here."""
    return Failure(f"render_{error.failure.kind}", f"{where}{error.failure.detail}")
