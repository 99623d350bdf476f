"""Frontend Design: the agent writes a web page for a simulated human who sees the target page and the drafts.

Published behaviour: docs/published/sweet_rl.md#frontend-design, #in-episodes, #in-grading.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Literal, Self

from sweet_rl import tracking
from sweet_rl.browsers import PageContext, RenderedPage, Renderer, RenderFailed
from sweet_rl.browsers.page import RenderFlags, extract_html
from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.flags import Only, flag, group, no_flag
from sweet_rl.flags.shared import TempPath
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Failure, Json, StopReason, Task, digest
from sweet_rl.worlds.base import Rows, no_agent
from sweet_rl.worlds.dialogue import (
    PARSERS,
    Dialogue,
    DialogueEnv,
    DialogueOptions,
    ParsedAction,
    parse_published,
)
from sweet_rl.worlds.options import AgentRequest, Answers, Options, Scores, TaskLists


class PictureFolder:
    """The pictures of a run: PNG files in one folder, named so that a resumed run finds its own again. Paths
    in rows are relative to `beside`, or whole."""

    def __init__(
        self, folder: Path, *, beside: Path | None, samples: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        self._folder = Path(os.path.abspath(folder.expanduser()))  # links stay as they are
        self._beside = None if beside is None else Path(os.path.abspath(beside.expanduser()))
        self._samples = samples or {}

    def save(self, task: Task, image: bytes, seed: int | None = None, turn: int = 0) -> str:
        """Keep the picture of an episode's turn; without a seed that of the task's page, which repeats share."""
        name = plain = re.sub(r"[^A-Za-z0-9-]+", "-", task.task_id)[:60]
        if plain != task.task_id:
            name = f"{plain}-{digest(task.task_id, 8)}"
        which = "target"
        if seed is not None:
            which = f"{self._samples.get((task.task_id, seed), f'seed{seed}')}_{turn}"
        path = self._folder / f"{name}_{which}.png"
        if not (path.is_file() and path.read_bytes() == image):
            from sweet_rl.records import replace_file  # which --help does not load

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

    async def opening(self) -> str:
        """Render the page that is wanted; without it there is nothing to talk about."""
        self._draft: RenderedPage | None = None
        self._shown: RenderedPage | None = None
        self._drafts: list[dict[str, Json]] = []
        self._target_image: str | None = None
        try:
            self._target = await self._renderer.render(self.task.hidden_information)
        except RenderFailed as error:
            failure = _of_rendering(error, "the page that is wanted: ")
            raise EpisodeError(StopReason.WORLD_FAILED, failure) from error
        self._target_image = await self._saved(self._target.image)
        return await super().opening()

    async def _consider(self, parsed: ParsedAction) -> tuple[Failure, ...]:
        """Render the turn's page, if it has one."""
        html = extract_html(parsed.visible)[1]
        self._shown = self._draft
        if html is None:
            return ()
        turn = self.turns - 1
        try:
            page = await self._renderer.render(html)
        except RenderFailed as error:
            failure = self._now(_of_rendering(error))
            self._drafts.append({"turn": turn, "image": None, "failure": failure.kind})
            self._shown = None  # an older page would pass for what this turn looks like
            if self._forget_answer:
                self._draft, self.answer = None, None
            return (failure,)
        image = await self._saved(page.image, self.seed, turn)
        self._drafts.append({"turn": turn, "image": image, "failure": None})
        self._draft = self._shown = page
        self.answer = image
        return ()

    async def _saved(self, image: bytes, *which: int) -> str:
        import asyncio  # which --help does not load

        return await asyncio.to_thread(self._pictures.save, self.task, image, *which)

    def _hand_in(self, _parsed: ParsedAction) -> str | None:
        return self.answer

    def context(self) -> PageContext:
        known = self.task.problem_description, self.task.hidden_information
        return PageContext(*known, tuple(self.messages), target=self._target, draft=self._shown)

    def info(self) -> Mapping[str, Json]:
        return {"drafts": list(self._drafts), "target_image": self._target_image}


def _of_rendering(error: RenderFailed, where: str = "") -> Failure:
    """Kinds of the renderer as kinds of an episode: "timeout" there may be a server's here."""
    return Failure(f"render_{error.failure.kind}", f"{where}{error.failure.detail}")


@group("Options of Frontend Design; a `renderer` may outlive the world, `pictures` keeps drawn pages")
class DesignOptions(DialogueOptions, RenderFlags, TempPath):
    image_url: Literal["png", "jpeg", "vllm"] = flag(
        "png",
        "media type of pictures in requests: png (correct), vllm or jpeg (as published, for vLLM and for OpenAI).",
        only=Only("human", ("server",), "a human behind a server (--hostname, --port or --env_base_url)"),
    )
    renderer: Renderer | None = no_flag(None)
    pictures: PictureFolder | None = no_flag(None)

    def beside(self, output: Path | None, samples: Mapping[tuple[str, int], int]) -> Self:
        """With the folder of pictures: the one that is named, or one beside the rows, or for a while."""
        if self.temp_path:
            folder = Path(self.temp_path)
        elif output is not None:
            folder = output.with_name(f"{output.stem}_images")
        else:
            folder = Path(tempfile.mkdtemp(prefix="sweet_rl_images_"))
        beside = None if output is None else output.parent
        return replace(self, pictures=PictureFolder(folder, beside=beside, samples=samples))

    def check_place(self) -> None:
        """Make sure that the folder that was named holds no pictures."""
        if self.temp_path and any(Path(self.temp_path).glob("*.png")):
            raise UsageError(
                f"--temp_path {self.temp_path!r} holds pictures of another run. Choose another folder, pass "
                "--overwrite to replace them, or --to_continue with that run's file."
            )

    def at_once(self, wanted: int) -> int:
        """At most 100, as published: pages need a browser each, and more only wait with their pictures in
        memory."""
        return min(wanted, 100)


_STAGES = "sweet_rl.worlds.frontend_design.stages"

SIZES = {"train": 1000, "test": 500}
"""How many mini-web pages there are when no limit is given."""


def refuses(tasks: Sequence[Task]) -> str:
    """Refuse tasks of functions: none has a page as its ground truth."""
    if any(task.ground_truth.lstrip().startswith("<") for task in tasks):
        return ""
    return "holds no web pages: no ground_truth begins with a tag. Leave --world out for functions."


class FrontendDesign(Dialogue):
    """Frontend Design: draw the web page that a simulated human wants; ColBench's or generated."""

    name = "html"
    options = DesignOptions
    tasks = TaskLists(
        "mini-web:train",
        "mini-web:test",
        refuses=refuses,
        lacks=lambda task: "" if "<html" in task.ground_truth.lower() else "page in ground_truth",
        how_to_get=lambda path: f"sweet-rl prepare_websight {path.parent} --validate (docs/train_sweet.md)",
    )
    scores = Scores(
        told=("target",),
        name="similarity",
        stage="evaluate_html",
        lowest=0.0,
        highest=1.0,
        ceiling_and_floor=("target", "blank"),
    )
    system_prompt = load_prompt("llm_agent_html_prompt")
    agents: ClassVar = {"improver": {}, "generic": {}, "blank": {}, "target": {}}
    user = Answers(
        by="human",
        scripted="sweet_rl.mini.frontend.human:ScriptedViewer",
        model="sweet_rl.users.model:VisionUser",
        asked_with=("image_url",),
        prompt="human_simulator_html_prompt.txt",
        hint="--env_model scripted is a human without a model.",
        server="configs/sweet_rl/serve_human_72b_vl.sh Qwen/Qwen2-VL-72B-Instruct",
    )
    stages: ClassVar = {
        "prepare_websight": StageEntry(
            f"{_STAGES}:prepare_websight", "Make frontend tasks from WebSight, from the hub or from files."
        ),
        "filter_websites": StageEntry(
            f"{_STAGES}:filter_websites",
            "Keep the frontend tasks whose page renders, and report why the others do not.",
        ),
        "judge_html": StageEntry(
            f"{_STAGES}:judge_html", "Compare two runs of Frontend Design page by page; print the win rate."
        ),
    }

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        if where not in SIZES:
            raise UsageError(
                f"{f'mini-web:{where}'.rstrip(':')!r} names no split of mini-web. Use 'mini-web:train' or 'mini-web:test'."
            )
        pages = import_module("sweet_rl.mini.frontend.pages")
        rows: Rows = pages.generate(where, SIZES[where] if limit is None else limit, seed)
        return rows

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        from sweet_rl.browsers import open_renderer

        design = options if isinstance(options, DesignOptions) else DesignOptions()
        human, pictures = user, design.pictures
        if human is None or pictures is None:
            raise UsageError(f"{self.name} needs a simulated human and a folder for pictures.")
        async with AsyncExitStack() as stack:
            renderer = design.renderer
            if renderer is None:
                renderer = await stack.enter_async_context(open_renderer(design.rendering()))
            yield lambda: FrontendEnv(
                human,
                renderer,
                pictures,
                max_turns=self.turns(options),
                parser=PARSERS[design.parser],
                stop_on_user_failure=design.user_failure == "stop",
                forget_answer=options.published,
            )

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        return None

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        designers = import_module("sweet_rl.mini.frontend.agents")
        agent: Policy
        match wanted.name:
            case "improver":
                turns = self.turns(wanted.options)
                agent = designers.ImproverDesigner(max_turns=turns, system_prompt=wanted.system_prompt)
            case "target":
                pages = {task.task_id: task.hidden_information for task in wanted.tasks}
                agent = designers.TargetDesigner(pages, system_prompt=wanted.system_prompt)
            case "blank":
                agent = designers.BlankDesigner(wanted.system_prompt)
            case "generic":
                agent = designers.GenericDesigner(wanted.system_prompt)
            case _:
                raise no_agent(self, wanted.name)
        return agent

    def settings(self, options: Options) -> dict[str, Json]:
        drawn = options.rendered_with() if isinstance(options, DesignOptions) else {}
        return super().settings(options) | {"compat": options.compat} | drawn


WORLD = FrontendDesign()
