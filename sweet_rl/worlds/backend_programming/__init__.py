"""Backend Programming: the agent writes a function for a simulated human who knows the requirements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import no_flag
from sweet_rl.types import Compat, Message, Observation, Task, derive_seed
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.dialogue import Dialogue, DialogueOptions, published_data
from sweet_rl.worlds.options import AgentRequest, Options

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient
    from sweet_rl.reflect_data.pretraining import School
    from sweet_rl.users.protocol import Speaker


@dataclass(frozen=True, kw_only=True)
class BackendOptions(DialogueOptions):
    """Options of dialogues with a simulated human.

    Args:
        compat: of no meaning: there is one way to play.
    """

    compat: Compat = no_flag("fixed")


SIZES = {"train": 1000, "dev": 500, "test": 500}
"""How many mini tasks there are when no limit is given."""


class BackendProgramming(Dialogue):
    """Backend Programming: write the function that a simulated human wants; ColBench's or generated."""

    name = "code"
    first_for = "dialogue"
    train_tasks, test_tasks = "mini:train", "mini:test"
    sources = ("mini",)
    options = BackendOptions
    evaluation = "evaluate_code"
    reward_is = "tests passed"
    bounds = ("oracle", "constant")
    agents = ("questioner", "oracle", "constant", "expert", "insider", "random")
    takes: ClassVar = {"questioner": {"num_questions": 3}, "constant": {"unsafe_no_sandbox": False}}
    agent_prompt = "llm_agent_code_prompt.txt"
    user_prompt = "human_simulator_code_prompt.txt"
    human_is_served = True
    archer_config = "archer_code"
    published_names = ("backend_programming",)
    human_server = "configs/sweet_rl/serve_human_70b.sh meta-llama/Llama-3.1-70B-Instruct"
    human_hint = "`sweet-rl serve_simulator` starts one that needs no model."

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Generated functions: of a split, or of a variant and a split (`easy:test`, `trades=10:test`)."""
        from sweet_rl.worlds.backend_programming import mini

        variant, _, split = where.rpartition(":")
        variant = variant or mini.DEFAULT_WORLD
        if split not in SIZES or variant.partition("=")[0] not in mini.WORLDS:
            raise UsageError(
                f"'mini:{where}' is no split of the mini benchmark. Use 'mini:train', 'mini:dev' or "
                "'mini:test', or name a world: 'mini:easy:test', 'mini:trades=10:test', "
                "'mini:families:test'."
            )
        return mini.generate(split, SIZES[split] if limit is None else limit, seed, variant)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Open dialogues with `user`, who knows the hidden function."""
        from sweet_rl.worlds.backend_programming.env import BackendEnv
        from sweet_rl.worlds.dialogue import PARSERS

        if user is None or not isinstance(options, DialogueOptions):
            raise UsageError(f"{self.name} needs a simulated human, and options of its own.")
        stop = options.user_failure == "stop"
        parser = PARSERS[options.parser]
        yield lambda: BackendEnv(
            user, max_turns=self.turns(options), parser=parser, stop_on_user_failure=stop
        )

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """One that asks some questions, three players of the mini benchmark, the ceiling and the floor."""
        from sweet_rl.policies import scripted
        from sweet_rl.worlds.backend_programming.agents import QuestionerPolicy

        prompt, turns = wanted.system_prompt, self.turns(wanted.options)
        if wanted.name == "questioner":
            if not 0 <= wanted.num_questions < turns:
                raise UsageError(
                    f"--num_questions must be from 0 to max_turns - 1 = {turns - 1}, "
                    f"got {wanted.num_questions}."
                )
            return QuestionerPolicy(system_prompt=prompt, num_questions=wanted.num_questions)
        if wanted.name in {"expert", "insider", "random"}:
            return scripted.TeacherPolicy(_player(wanted.name, wanted.seed, turns), system_prompt=prompt)
        if wanted.name == "oracle":
            answers = {task.task_id: task.ground_truth for task in wanted.tasks}
            return scripted.OraclePolicy(answers, system_prompt=prompt)
        if wanted.name != "constant":
            raise self.no_agent(wanted.name)
        from sweet_rl.grading.code import CodeGrader, constant_answer
        from sweet_rl.grading.sandbox import Sandbox

        with Sandbox(unsafe_no_sandbox=wanted.unsafe_no_sandbox) as sandbox:
            outputs = CodeGrader(sandbox).reference_outputs(wanted.tasks)
        answers = {task.task_id: constant_answer(task, outputs[task.task_id]) for task in wanted.tasks}
        return scripted.ConstantPolicy(answers, system_prompt=prompt)

    def refuses(self, tasks: Sequence[Task]) -> str:
        """Web pages are another world's."""
        pages = all(task.ground_truth.lstrip().startswith("<") for task in tasks)
        return "holds web pages, not functions: add --world html." if pages else ""

    def lacks(self, task: Task) -> str:
        """Answers are graded by tests."""
        return "" if task.test_cases else "test_cases"

    def how_to_get(self, path: Path) -> str:
        """The published tasks are on the hub."""
        return published_data(path)

    def make_user(self) -> User:
        """The scripted human of the mini benchmark."""
        from sweet_rl.worlds.backend_programming.human import ScriptedHuman

        return ScriptedHuman()

    def good_turn(self, solution: str, messages: Sequence[Message], turn: str) -> bool | None:
        """By the oracle of the mini worlds about extras; None for other functions."""
        from sweet_rl.worlds.backend_programming.mini import extras
        from sweet_rl.worlds.backend_programming.mini.judge import judge

        return judge(solution, messages, turn).good if extras.is_source(solution) else None

    def school(self) -> School:
        """Drills and dialogues of the mini benchmark; none shows which extras are usual."""
        from sweet_rl.worlds.backend_programming.mini.school import SCHOOL

        return SCHOOL

    def served_human(self) -> Speaker:
        """The scripted human behind a server; the hidden function is in the prompt."""
        from sweet_rl.worlds.backend_programming.human.reading import answer_served

        return answer_served

    def make_model_user(
        self, client: OpenAIClient, model: str, *, prompt: str, options: Options, **said: Any
    ) -> User:
        """The human as the paper has it."""
        from sweet_rl.users.model import OpenAIUser

        return OpenAIUser(client, model, prompt_template=prompt, **said)

    def check_user_prompt(self, template: str, path: str) -> None:
        """Check for the placeholders of problem, hidden information and dialogue."""
        from sweet_rl.prompts import PLACEHOLDERS, check_placeholders

        check_placeholders(template, PLACEHOLDERS, path)


def _player(name: str, seed: int, max_turns: int) -> Callable[[Observation], str]:
    from sweet_rl.worlds.backend_programming.mini import expert

    play = expert.PLAYERS[name]

    def say(observation: Observation) -> str:
        rng = Random(derive_seed(seed, observation.seed, observation.turn))
        return play(observation.messages, rng, max_turns=max_turns)

    return say


WORLD = BackendProgramming()
