"""Backend Programming: the agent writes a function for a simulated human who knows the requirements.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

import ast
import keyword
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import group, no_flag
from sweet_rl.policies import scripted
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Compat, Message, Observation, Task, derive_seed
from sweet_rl.worlds.base import Rows, no_agent
from sweet_rl.worlds.dialogue import (
    PARSERS,
    Dialogue,
    DialogueEnv,
    DialogueOptions,
    ParsedAction,
    published_data,
)
from sweet_rl.worlds.options import AgentRequest, Answers, Archer, Options, Scores, TaskLists

_QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text("utf-8"))
ABOUT_FUNCTION: Final[list[list[str]]] = _QUESTIONS["about_function"]
"""Several wordings of each general question."""
ABOUT_PARAMETER: Final[list[str]] = _QUESTIONS["about_parameter"]
"""Asked about one parameter of the function."""
MAX_QUESTIONS: Final = len(ABOUT_FUNCTION)
"""As many different questions as there are for a function without parameters."""

_DEFINITION = re.compile(r"\bdef\s+(?P<name>[^\W\d]\w*)\s*\(")
_IDENTIFIER = re.compile(r"\s*+\**+\s*+(?P<name>[^\W\d]\w*)")


class BackendEnv(DialogueEnv):
    """One episode of Backend Programming: the answer is the text behind the marker, or the last turn's."""

    reply_limit = 400

    def _hand_in(self, parsed: ParsedAction) -> str:
        return parsed.visible if parsed.answer is None else parsed.answer


@dataclass(frozen=True, slots=True)
class Signature:
    """The function that is wanted: its header as Python source, and the names of its parameters."""

    header: str
    parameters: tuple[str, ...]


@lru_cache(maxsize=4096)  # asked again in every turn of an episode
def read_signature(description: str) -> Signature | None:
    """The last `def …` of a description, of one that breaks off what can be read; None when there is none."""
    definitions = list(_DEFINITION.finditer(description))
    if not definitions:
        return None
    found = definitions[-1]
    for bracket in re.finditer(r"\)", description[found.end() :]):
        header = description[found.start() : found.end() + bracket.end()]
        try:
            function = ast.parse(f"{header}: pass").body[0]
        except (SyntaxError, ValueError):
            continue
        if isinstance(function, ast.FunctionDef):
            arguments = function.args
            names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return Signature(header, tuple(argument.arg for argument in names))
    rest = description[found.end() :].split(",")
    named = (match["name"] for part in rest if (match := _IDENTIFIER.match(part)))
    parameters = tuple(dict.fromkeys(name for name in named if not keyword.iskeyword(name)))
    function_name = "solution" if keyword.iskeyword(found["name"]) else found["name"]
    return Signature(f"def {function_name}({', '.join(parameters)})", parameters)


def stub(description: str) -> str:
    """A function of the wanted signature that returns None; of any signature when none is given."""
    signature = read_signature(description)
    header = signature.header if signature else "def solution(*args, **kwargs)"
    return f"{header}:\n    return None\n"


@lru_cache(maxsize=4096)
def plan_questions(description: str, seed: int) -> tuple[str, ...]:
    """At least `MAX_QUESTIONS` questions in the seed's order and wording, every second one on a parameter."""
    rng = Random(seed)
    general = [rng.choice(wordings) for wordings in rng.sample(ABOUT_FUNCTION, len(ABOUT_FUNCTION))]
    signature = read_signature(description)
    parameters = list(signature.parameters) if signature else []
    rng.shuffle(parameters)
    questions = []
    for question in general:
        questions.append(question)
        if parameters:
            questions.append(rng.choice(ABOUT_PARAMETER).format(name=parameters.pop()))
    return tuple(questions)


class QuestionerPolicy(scripted.ScriptedPolicy):
    """Asks `num_questions` template questions, varied by the episode's seed, then hands in a stub of the
    wanted signature."""

    name = "questioner"

    def __init__(self, *, num_questions: int = 3, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        if not 0 <= num_questions <= MAX_QUESTIONS:
            raise UsageError(
                f"The questioner can ask 0 to {MAX_QUESTIONS} questions, got num_questions={num_questions}."
            )
        self._num_questions = num_questions

    def _say(self, observation: Observation) -> str:
        description = observation.messages[0].content if observation.messages else ""
        if observation.turn >= self._num_questions:
            return scripted.as_answer(stub(description))
        return plan_questions(description, observation.seed)[observation.turn]


@group("Options of dialogues with a simulated human. `compat` has no meaning: there is one way to play")
class BackendOptions(DialogueOptions):
    compat: Compat = no_flag("fixed")


SIZES = {"train": 1000, "dev": 500, "test": 500}
"""How many mini tasks there are when no limit is given."""


def good_turn(solution: str, messages: Sequence[Message], turn: str) -> bool | None:
    """By the oracle of the mini worlds about extras; None for other functions."""
    extras = import_module("sweet_rl.mini.backend.extras")
    return bool(extras.judge(solution, messages, turn).good) if extras.SOURCE.fullmatch(solution) else None


def refuses(tasks: Sequence[Task]) -> str:
    """Web pages are another world's."""
    pages = all(task.ground_truth.lstrip().startswith("<") for task in tasks)
    return "holds web pages, not functions: add --world html." if pages else ""


class BackendProgramming(Dialogue):
    """Backend Programming: write the function that a simulated human wants; ColBench's or generated."""

    name = "code"
    options = BackendOptions
    tasks = TaskLists(
        "mini:train",
        "mini:test",
        refuses=refuses,
        lacks=lambda task: "" if task.test_cases else "test_cases",
        how_to_get=published_data,
    )
    scores = Scores(
        told=("oracle", "constant"),
        name="tests passed",
        stage="evaluate_code",
        lowest=0.0,
        highest=1.0,
        ceiling_and_floor=("oracle", "constant"),
        good_turn=good_turn,
    )
    agents: ClassVar = {
        **{"questioner": {"num_questions": 3}, "oracle": {}, "constant": {"unsafe_no_sandbox": False}},
        **{"expert": {}, "insider": {}, "random": {}},
    }
    user = Answers(
        by="human",
        scripted="sweet_rl.mini.backend.human:ScriptedHuman",
        model="sweet_rl.users.model:OpenAIUser",
        prompt="human_simulator_code_prompt.txt",
        speaker="sweet_rl.mini.backend.human:answer_served",
        hint="`sweet-rl serve_simulator` starts one that needs no model.",
        server="configs/sweet_rl/serve_human_70b.sh meta-llama/Llama-3.1-70B-Instruct",
    )
    archer = Archer(config="archer_code")
    system_prompt = load_prompt("llm_agent_code_prompt")

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        mini = import_module("sweet_rl.mini.backend.tasks")
        variant, _, split = where.rpartition(":")
        variant = variant or mini.DEFAULT_WORLD
        if split not in SIZES or variant.partition("=")[0] not in mini.WORLDS:
            raise UsageError(
                f"{f'mini:{where}'.rstrip(':')!r} names no split of the mini benchmark. Use 'mini:train', 'mini:dev' or "
                "'mini:test', or name a world: 'mini:easy:test', 'mini:trades=10:test', "
                "'mini:families:test'."
            )
        rows: Rows = mini.generate(split, SIZES[split] if limit is None else limit, seed, variant)
        return rows

    def make_env(self, options: Options, user: User | None) -> Env:
        if user is None or not isinstance(options, DialogueOptions):
            raise UsageError(f"{self.name} needs a simulated human, and options of its own.")
        return BackendEnv(
            user,
            max_turns=self.turns(options),
            parser=PARSERS[options.parser],
            stop_on_user_failure=options.user_failure == "stop",
        )

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        prompt, turns = wanted.system_prompt, self.turns(wanted.options)
        match wanted.name:
            case "questioner":
                if not 0 <= wanted.num_questions < turns:
                    raise UsageError(
                        f"--num_questions must be from 0 to max_turns - 1 = {turns - 1}, got {wanted.num_questions}."
                    )
                return QuestionerPolicy(system_prompt=prompt, num_questions=wanted.num_questions)
            case "expert" | "insider" | "random" as name:
                play = import_module("sweet_rl.mini.backend.extras").PLAYERS[name]

                def say(observation: Observation) -> str:
                    rng = Random(derive_seed(wanted.seed, observation.seed, observation.turn))
                    return str(play(observation.messages, rng, max_turns=turns))

                return scripted.TeacherPolicy(say, name=name, system_prompt=prompt)
            case "oracle":
                answers = {task.task_id: task.ground_truth for task in wanted.tasks}
                return scripted.OraclePolicy(answers, system_prompt=prompt)
            case "constant":
                from sweet_rl.grading.code import CodeGrader, constant_answer
                from sweet_rl.grading.sandbox import Sandbox

                with Sandbox(unsafe_no_sandbox=wanted.unsafe_no_sandbox) as sandbox:
                    outputs = CodeGrader(sandbox).reference_outputs(wanted.tasks)
                answers = {
                    task.task_id: constant_answer(task, outputs[task.task_id]) for task in wanted.tasks
                }
                return scripted.ConstantPolicy(answers, system_prompt=prompt)
        raise no_agent(self, wanted.name)


WORLD = BackendProgramming()
