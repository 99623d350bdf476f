"""What question games share: an oracle knows a secret, an agent asks until it can name it.

A turn costs 1; the turn that solves the game costs nothing. So a game solved with
question k returns -(k - 1), one not solved in 20 questions -20.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pkgutil import resolve_name
from random import Random
from typing import Any, ClassVar, Final, TypeVar

from sweet_rl.chat.formats import without_system
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import group, no_flag
from sweet_rl.types import NO_ANSWER, Compat, Json, Message, StepResult, UserContext
from sweet_rl.worlds.base import BaseEnv, World, no_agent, rules_of
from sweet_rl.worlds.options import AgentRequest, Options, Scores

FIRST_OBSERVATION: Final = "Questions:\n"  # what the agent sees before its first question

MAX_QUESTION_CHARACTERS: Final = 500
"""Of a question longer than this only so much is kept, and the oracle is not asked."""

TURN_REWARD, SOLVED_REWARD = -1.0, 0.0
TEST_SHARE: Final = 0.2
_SPLIT_SEED: Final = "question games, held out"  # fixed, so that everybody's held-out tasks are the same
_IN_JSON = '"Question":'
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`\u00b4]")
Row = TypeVar("Row")


def split_of(rows: Sequence[Row], split: str, game: str, known: Sequence[str]) -> list[Row]:
    """All rows, those held out ("test"), or the others ("train"); each in the published order."""
    if not split:
        return list(rows)
    if split not in {"train", "test"}:
        raise UsageError(
            f"'{game}:{split}' is no split of {game}. Use {game!r} for all of it, or "
            f"{', '.join(f'{game}:{name}' for name in known)}."
        )
    held_out = set(Random(_SPLIT_SEED).sample(range(len(rows)), round(TEST_SHARE * len(rows))))
    return [row for index, row in enumerate(rows) if (index in held_out) == (split == "test")]


def words_of(text: str) -> list[str]:
    """The words of a text: lower case, without accents and quotes (`"it's"` is one word); a hyphen separates."""
    decomposed = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text).casefold())
    return _WORD.findall("".join(letter for letter in decomposed if not unicodedata.combining(letter)))


def says_name(text: str, names: Iterable[str]) -> bool:
    """Whether a text contains one of the names as whole words, ignoring spaces and accents.

    "Is it Pyongyang?" names "Pyong Yang"; "Londonderry" does not name London.
    """
    words = words_of(text)
    spelled, edges = "".join(words), set(accumulate(map(len, words), initial=0))
    return any(
        name and start + len(name) in edges and spelled.startswith(name, start)
        for name in map("".join, map(words_of, names))
        for start in edges
    )


def without_tail(question: str) -> str:
    """The question up to its last letter."""
    end = len(question)
    while end and not question[end - 1].isalpha():
        end -= 1
    return question[:end]


def question_of(context: UserContext) -> str:
    """What the agent asked last; empty before its first question."""
    replies = [message.content for message in context.messages if message.role == "assistant"]
    return replies[-1] if replies else ""


def decode_question(text: str) -> str:
    """The question of a model that was asked for `{"Question": "..."}`: what follows the last `"Question":`, up to
    its first question mark, which is added where there is none, without double quotes."""
    question, _, _ = text.rpartition(_IN_JSON)[2].partition("?")
    return f"{question}?".strip().replace('"', "")


@dataclass(frozen=True, slots=True)
class Asking:
    """How a model that is the oracle of a game is asked: what the published ones read before the question,
    with `{hidden}`; the length of an answer; the packaged prompt of those that follow instructions; what
    stands behind a question at the published gradio server."""

    premise: str
    max_new_tokens: int
    template: str
    suffix: str = ""

    def published(self, context: UserContext) -> str:
        """The published prompt for the question asked last."""
        return self.premise.replace("{hidden}", context.hidden_information) + question_of(context)

    def open(self, kind: str, path: str, **how: Any) -> User:
        oracle: User = resolve_name("sweet_rl.worlds.question_games.oracles:open_oracle")(
            self, kind, path, **how
        )
        return oracle


class QuestionTranscript:
    r"""Question games: the opening line, then a line for each question with its answer.

    `["Questions:\n", "Is it alive?", "Yes."]` becomes `"Questions:\nIs it alive? Yes.\n"`. A question
    that has no answer yet is written with nothing behind it.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The game so far."""
        spoken = without_system(messages)
        opening = "".join(message.content for message in spoken[:1])
        return opening + "".join(
            message.content if message.role == "assistant" else f" {message.content}\n"
            for message in spoken[1:]
        )


class QuestionGameEnv(BaseEnv):
    """One game; subclasses say what an answer is and when it is solved (`_judge`). `reads_json`: the
    question is found in what the agent wrote; the dialogue shows it, the record keeps both. By the repaired rules a
    question is the first line that is not blank; an empty one and one of more than `MAX_QUESTION_CHARACTERS` cost
    their turn and are not asked. By the published rules every action is a question as it is."""

    _no_answer: str
    answer: str | None = NO_ANSWER

    def __init__(
        self, oracle: User, *, max_turns: int = 20, compat: Compat = "fixed", reads_json: bool = False
    ) -> None:
        super().__init__(max_turns, oracle)
        self._reads_json, self._published = reads_json, compat == "published"

    async def opening(self) -> str:
        """The opening line alone."""
        task, self.answer = self.task, NO_ANSWER
        names = task.row.get("aliases")
        if names is None:  # a row made elsewhere: the object, or "City, Country"
            names = [task.hidden_information.split(",")[0]]
        if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
            raise DataError(
                f"of the task {task.task_id!r} must be a list of names",
                field="aliases",
                value=names,
                repair='For example ["airplane", "plane"]; leave it out to use hidden_information.',
            )
        self._names = [name.lower() for name in names]
        return task.problem_description

    def visible(self, action: str) -> str:
        return self._question(action)[: None if self._published else MAX_QUESTION_CHARACTERS]

    async def turn(self, action: str) -> StepResult:
        """One question and its answer."""
        shown, answer, solved = self.visible(action), self._no_answer, False
        if self._published or 0 < len(self._question(action)) <= MAX_QUESTION_CHARACTERS:
            answer, solved = self._judge(shown, await self.ask())
        self.answer = shown if solved else NO_ANSWER
        reward = SOLVED_REWARD if solved else TURN_REWARD
        return self.respond(answer, reward, terminated=solved, info={"solved": solved})

    def _question(self, action: str) -> str:
        question = decode_question(action) if self._reads_json else action
        if self._published:
            return question
        lines = question.strip().splitlines()
        return lines[0].strip().encode("utf-8", "replace").decode() if lines else ""

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        """The answer that the agent gets to see, and whether the game is solved."""
        raise NotImplementedError


@group("Options of question games")
class QuestionOptions(Options):
    reads_json: bool = no_flag(False)


def written_question(action: str, options: Options) -> str:
    """A question; as JSON where that is how the agent writes it."""
    if not getattr(options, "reads_json", False) or _IN_JSON in action:
        return action
    return json.dumps({"Question": action}, ensure_ascii=False)


class QuestionGame(World):
    """Subclasses say which `game` it is; `player` is `module:FUNCTION` that makes a scripted agent."""

    max_turns = 20
    options = QuestionOptions
    agents: ClassVar = {"asker": {"skill": 1.0}}
    scores = Scores(worst_turn=-1.0, highest=0.0)
    game: ClassVar[Callable[..., Env]]
    player: ClassVar[str]

    def make_env(self, options: Options, user: User | None) -> Env:
        """A game whose questions `user` answers."""
        if user is None:
            raise UsageError(f"{self.name} needs an oracle.")
        return self.game(user, **rules_of(self, options, "reads_json"))

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """A scripted player, who knows the table that the packaged oracle answers from."""
        if wanted.name not in self.agents:
            raise no_agent(self, wanted.name)
        skill = self.agents[wanted.name].get("skill") if wanted.skill is None else wanted.skill
        player: Policy = resolve_name(self.player)(
            wanted.name,
            [task.hidden_information for task in wanted.tasks],
            skill=skill,
            max_turns=self.turns(wanted.options),
            system_prompt=wanted.system_prompt,
        )
        return player

    def transcript(self) -> QuestionTranscript:
        """Questions with their answers, line by line."""
        return QuestionTranscript()

    def settings(self, options: Options) -> dict[str, Json]:
        """As before these worlds had options of their own."""
        return super().settings(options) | {"place": None}
