"""The Frontend Design world of ColBench: the agent writes pages, a human who sees their pictures replies.

Published behaviour: docs/published/sweet_rl.md#frontend-design, #in-episodes, #in-grading.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.browsers import PageContext, RenderedPage, Renderer, RenderFailed
from sweet_rl.browsers.page import extract_html
from sweet_rl.contracts import User
from sweet_rl.errors import EpisodeError
from sweet_rl.records import replace_file
from sweet_rl.types import Failure, Json, StopReason, Task, digest
from sweet_rl.worlds.dialogue import DialogueEnv, ParsedAction, parse_published


class PictureFolder:
    """The pictures of a run: PNG files in one folder, named so that a resumed run finds its own again.

    Args:
        folder: where the files go; made when the first one comes.
        beside: the folder that paths in rows are relative to; None: they are whole.
        samples: which repeat an episode is, by task and seed; names of unknown ones have the seed instead.
    """

    def __init__(
        self, folder: Path, *, beside: Path | None, samples: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        self._folder = Path(os.path.abspath(folder.expanduser()))  # links stay as they are
        self._beside = None if beside is None else Path(os.path.abspath(beside.expanduser()))
        self._samples = samples or {}

    def save(self, task: Task, image: bytes, seed: int | None = None, turn: int = 0) -> str:
        """Keep the picture of an episode's turn; without a seed that of the task's page, which repeats share.

        A picture of an interrupted run is overwritten. Task ids that are no file names get a digest, so that two never
        share a picture.
        """
        name = plain = re.sub(r"[^A-Za-z0-9-]+", "-", task.task_id)[:60]
        if plain != task.task_id:
            name = f"{plain}-{digest(task.task_id, 8)}"
        which = "target"
        if seed is not None:
            which = f"{self._samples.get((task.task_id, seed), f'seed{seed}')}_{turn}"
        path = self._folder / f"{name}_{which}.png"
        if not (path.is_file() and path.read_bytes() == image):
            tracking.writes(self._folder, folder=True, continues=True)
            replace_file(path, [image])
        return (path if self._beside is None else Path(os.path.relpath(path, self._beside))).as_posix()


class FrontendEnv(DialogueEnv):
    """One episode of Frontend Design; the marker of an answer ends it and cuts nothing.

    The row's further fields: `drafts`, one `{turn, image, failure}` for every turn with a page (`image` is
    null where `failure` says why), and `target_image`. With `forget_answer`, as published, a draft without
    a picture takes away an earlier answer.
    """

    reply_limit = 1000

    def __init__(
        self,
        user: User,
        renderer: Renderer,
        pictures: PictureFolder,
        *,
        max_turns: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        stop_on_user_failure: bool = False,
        forget_answer: bool = False,
    ) -> None:
        super().__init__(user, max_turns=max_turns, parser=parser, stop_on_user_failure=stop_on_user_failure)
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
        self._target_image = await asyncio.to_thread(self._pictures.save, self._task, self._target.image)

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
        image = await asyncio.to_thread(self._pictures.save, self._task, page.image, self._seed, turn)
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
