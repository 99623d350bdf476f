"""Frontend Design: the agent writes a web page for a simulated human who sees the target page."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from sweet_rl.browsers import Renderer
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, no_flag
from sweet_rl.flags.shared import TempPath
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Json, Task
from sweet_rl.worlds.base import Rows, no_agent
from sweet_rl.worlds.dialogue import Dialogue, DialogueOptions
from sweet_rl.worlds.options import AgentRequest, Answers, Options, Scores, TaskLists

if TYPE_CHECKING:
    from sweet_rl.worlds.frontend_design.env import PictureFolder


@dataclass(frozen=True, kw_only=True)
class DesignOptions(DialogueOptions, RenderFlags, TempPath):
    """Options of Frontend Design; a `renderer` may outlive the world, `pictures` keeps drawn pages."""

    image_url: Literal["png", "jpeg", "vllm"] = flag(
        "png",
        "how pictures are written into requests: png (right), vllm or jpeg (as published, for vLLM and for OpenAI).",
        only=Only("human", ("server",), "a human behind a server (--hostname, --port or --env_base_url)"),
    )
    renderer: Renderer | None = no_flag(None)
    pictures: PictureFolder | None = no_flag(None)

    def beside(self, output: Path | None, samples: Mapping[tuple[str, int], int]) -> Self:
        """With the folder of pictures: the one that is named, or one beside the rows, or for a while."""
        from sweet_rl.worlds.frontend_design.env import PictureFolder

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
                "--overwrite to draw over them, or --to_continue with that run's file."
            )

    def at_once(self, wanted: int) -> int:
        """At most 100, as published: pages need a browser each, and more only wait with their pictures in memory."""
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
        how_to_get=lambda path: f"sweet-rl prepare_websight {path.parent} --validate (docs/training.md)",
    )
    scores = Scores(
        name="similarity",
        stage="evaluate_html",
        lowest=0.0,
        highest=1.0,
        ceiling_and_floor=("target", "blank"),
    )
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
            f"{_STAGES}:prepare_websight", "Make frontend tasks of WebSight, from the hub or from files."
        ),
        "filter_websites": StageEntry(
            f"{_STAGES}:filter_websites",
            "Keep the frontend tasks whose page renders; say why the others do not.",
        ),
        "judge_html": StageEntry(
            f"{_STAGES}:judge_html", "Compare two runs of Frontend Design page by page; print the win rate."
        ),
    }

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Generated pages of a split."""
        if where not in SIZES:
            raise UsageError(
                f"{f'mini-web:{where}'.rstrip(':')!r} names no split of mini-web. Use 'mini-web:train' or 'mini-web:test'."
            )
        pages = import_module("sweet_rl.mini.frontend.pages")
        rows: Rows = pages.generate(where, SIZES[where] if limit is None else limit, seed)
        return rows

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Dialogues with `user`, who is shown pictures."""
        from sweet_rl.browsers import open_renderer
        from sweet_rl.worlds.dialogue import PARSERS
        from sweet_rl.worlds.frontend_design.env import FrontendEnv

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
        """None: a page is more or less like the wanted one."""
        return None

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """Designers: one that follows the human's remarks, the ceiling and the floors."""
        designers = import_module("sweet_rl.mini.frontend.agents")
        agent: Policy
        if wanted.name == "improver":
            agent = designers.ImproverDesigner(
                max_turns=self.turns(wanted.options), system_prompt=wanted.system_prompt
            )
        elif wanted.name == "target":
            pages = {task.task_id: task.hidden_information for task in wanted.tasks}
            agent = designers.TargetDesigner(pages, system_prompt=wanted.system_prompt)
        elif wanted.name in self.agents:
            kind = designers.BlankDesigner if wanted.name == "blank" else designers.GenericDesigner
            agent = kind(wanted.system_prompt)
        else:
            raise no_agent(self, wanted.name)
        return agent

    def system_prompt(self) -> str:
        return load_prompt("llm_agent_html_prompt.txt")

    def settings(self, options: Options) -> dict[str, Json]:
        """Whether a draft that cannot be drawn takes an earlier answer away, too; and how pages are drawn."""
        drawn = options.rendered_with() if isinstance(options, DesignOptions) else {}
        return super().settings(options) | {"compat": options.compat} | drawn


WORLD = FrontendDesign()
