"""Frontend Design: a web page is wanted, and a simulated human sees the one it should look like."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.types import Json, Task
from sweet_rl.worlds.base import AgentRequest, Options, Rows
from sweet_rl.worlds.dialogue import Dialogue, DialogueOptions

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient
    from sweet_rl.pages.service import RenderService
    from sweet_rl.worlds.frontend_design.pictures import PictureFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOptions(DialogueOptions):
    """Options of Frontend Design.

    Args:
        renderer: draws pages; open for as long as the world is.
        pictures: where the drawn pages are kept.
    """

    renderer: RenderService | None = field(default=None, metadata={"flag": None})
    pictures: PictureFolder | None = field(default=None, metadata={"flag": None})


SIZES = {"train": 1000, "test": 500}
"""How many mini-web pages there are when no limit is given."""


class FrontendDesign(Dialogue):
    """ColBench's pages, and those of the embedded mini benchmark."""

    name = "html"
    options = DesignOptions
    evaluation = "evaluate_html"
    train_tasks, test_tasks = "mini-web:train", "mini-web:test"
    sources = ("mini-web",)
    agents = ("improver", "generic", "blank", "target")
    agent_prompt = "llm_agent_html_prompt.txt"
    user_prompt = "human_simulator_html_prompt.txt"

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Generated pages of a split."""
        from sweet_rl.worlds.frontend_design import mini as mini_web

        if where not in SIZES:
            raise UsageError(
                f"'mini-web:{where}' is no split of mini-web. Use 'mini-web:train' or 'mini-web:test'."
            )
        return mini_web.generate(where, SIZES[where] if limit is None else limit, seed)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Dialogues with `user`, who is shown pictures."""
        from sweet_rl.worlds.dialogue.parsing import PARSERS
        from sweet_rl.worlds.frontend_design.env import FrontendEnv

        design = options if isinstance(options, DesignOptions) else DesignOptions()
        renderer, pictures = design.renderer, design.pictures
        if user is None or renderer is None or pictures is None:
            raise UsageError(f"{self.name} needs a simulated human, a renderer and a folder for pictures.")
        yield lambda: FrontendEnv(
            user,
            renderer,
            pictures,
            max_steps=self.turns(options),
            parser=PARSERS[design.parser],
            stop_on_user_failure=design.user_failure == "stop",
            forget_answer=options.published,
        )

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """Designers: one that follows the human's remarks, the ceiling and the floors."""
        from sweet_rl.worlds.frontend_design import agents as designers

        prompt = wanted.system_prompt
        if wanted.name == "blank":
            return designers.BlankDesigner(prompt)
        if wanted.name == "generic":
            return designers.GenericDesigner(prompt)
        if wanted.name == "target":
            pages = {task.task_id: task.hidden_information for task in wanted.tasks}
            return designers.TargetDesigner(pages, system_prompt=prompt)
        if wanted.name == "improver":
            return designers.ImproverDesigner(max_steps=self.turns(wanted.options), system_prompt=prompt)
        raise self.no_agent(wanted.name)

    def refuses(self, tasks: Sequence[Task]) -> str:
        """Refuse tasks of functions: none has a page as its ground truth."""
        if any(task.ground_truth.lstrip().startswith("<") for task in tasks):
            return ""
        return "holds no web pages: no ground_truth begins with a tag. Leave --task_type out for functions."

    def lacks(self, task: Task) -> str:
        """Answers are compared with a page."""
        return "" if "<html" in task.ground_truth.lower() else "page in ground_truth"

    def how_to_get(self, path: Path) -> str:
        """ColBench has no pages: they are made."""
        return f"python scripts/prepare_websight.py {path.parent} --validate (docs/training.md)"

    def make_user(self) -> User:
        """The scripted human, who compares pictures."""
        from sweet_rl.worlds.frontend_design.human import ScriptedViewer

        return ScriptedViewer()

    def make_model_user(self, client: OpenAIClient, model: str, *, prompt: str, image_url: str) -> User:
        """The human as the paper has it: a model that sees."""
        from sweet_rl.users.vision import VisionUser

        return VisionUser(client, model, prompt_template=prompt, image_url=image_url)

    def check_user_prompt(self, template: str, path: str) -> None:
        """Check a prompt for a human who is shown pictures."""
        from sweet_rl.users.vision import check_vision_prompt

        check_vision_prompt(template, path)

    def settings(self, options: Options) -> dict[str, Json]:
        """Whether a draft that cannot be drawn takes an earlier answer away, too."""
        return super().settings(options) | {"compat": options.compat}


WORLD = FrontendDesign()
