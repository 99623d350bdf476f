"""The episode of a question game: an agent finds out the oracle's secret.

A turn costs 1; the turn that solves the game costs nothing. So a game solved with
question k returns -(k - 1), one not solved in 20 questions -20.

Which rules decide is the game's own (`QuestionGameEnv.judge`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from sweet_rl.contracts import User
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.types import (
    NO_ANSWER,
    Compat,
    Failure,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    UserContext,
)

_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`\u00b4]")


def words_of(text: str) -> list[str]:
    """The words of a text: lower case, without accents, punctuation and quotes; `"it's"` is one word.

    Digits are parts of words. A hyphen separates, as a space does.
    """
    decomposed = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text).casefold())
    return _WORD.findall("".join(letter for letter in decomposed if not unicodedata.combining(letter)))


def says_name(text: str, names: Iterable[str]) -> bool:
    """Whether a text contains one of the names as whole words, ignoring spaces and accents.

    "Is it Pyongyang?" names "Pyong Yang"; "Londonderry" does not name London.
    """
    words = words_of(text)
    return any(_find(words, "".join(words_of(name))) for name in names)


def without_tail(question: str) -> str:
    """The question up to its last letter."""
    end = len(question)
    while end and not question[end - 1].isalpha():
        end -= 1
    return question[:end]


def _find(words: Sequence[str], spelled: str) -> bool:
    """Whether some words in a row spell this, spaces left out."""
    for start in range(len(words)):
        length = 0
        for end in range(start, len(words)):
            length += len(words[end])
            if length >= len(spelled):
                if "".join(words[start : end + 1]) == spelled:
                    return True
                break
    return False


MAX_TURNS: Final = 20
MAX_QUESTION_CHARACTERS: Final = 500
"""Of a question longer than this only so much is kept, and the oracle is not asked."""

TURN_REWARD, SOLVED_REWARD = -1.0, 0.0


def as_it_is(text: str) -> str:
    """The agent's text is its question."""
    return text


class QuestionGameEnv:
    """One game; subclasses say what an answer is and when the game is solved.

    Args:
        oracle: who knows the answer; shared by many games. It is given `hidden_information` and the dialogue.
        max_turns: questions at most. The last one is still answered.
        read_action: the agent's raw text to its question, for agents that write more than the question
            (`asking.decode_question`). The dialogue shows the question; the record keeps both.
        stop_on_user_failure: end a game whose oracle cannot be asked with an error. False continues with the
            game's words for what cannot be answered, and records the failure.
    """

    _no_answer: str

    def __init__(
        self,
        oracle: User,
        *,
        max_turns: int = MAX_TURNS,
        compat: Compat = "fixed",
        read_action: Callable[[str], str] = as_it_is,
        stop_on_user_failure: bool = True,
    ) -> None:
        if max_turns < 1:
            raise UsageError(f"max_turns must be at least 1, got {max_turns}.")
        if compat not in {"fixed", "published"}:
            raise UsageError(f"compat must be 'fixed' or 'published', got {compat!r}.")
        self._oracle = oracle
        self._max_turns = max_turns
        self._published = compat == "published"
        self._read_action = read_action
        self._stop_on_user_failure = stop_on_user_failure
        self._done = True
        self._answer: str = NO_ANSWER

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin: the agent sees the opening line alone."""
        self._task, self._seed = task, seed
        self._names = _names_of(task)
        self._messages = [Message("user", task.problem_description)]
        self._turns, self._answer, self._done = 0, NO_ANSWER, False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        r"""One question and its answer.

        By the repaired rules a question is the first line of the action that is not blank, without the
        blanks around it; what no UTF-8 file can hold becomes a question mark. An empty question and one of
        more than `MAX_QUESTION_CHARACTERS` cost their turn and are not put to the oracle. By the published
        rules every action is a question as it is, the empty one and "a\nb\n" included.
        """
        if self._done:
            return StepResult(action, action, None, terminated=True, answer=self._answer)
        self._turns += 1
        question = self._question(self._read_action(action))
        shown = question if self._published else question[:MAX_QUESTION_CHARACTERS]
        self._messages.append(Message("assistant", shown))
        failures: tuple[Failure, ...] = ()
        if self._published or 0 < len(question) <= MAX_QUESTION_CHARACTERS:
            answer, solved, failures = await self._ask(shown)
        else:
            answer, solved = self._no_answer, False
        self._messages.append(Message("user", answer))
        truncated = not solved and self._turns >= self._max_turns
        self._done = solved or truncated
        if solved:
            self._answer = shown
        return StepResult(
            content=shown,
            output=action,
            observation=self._observe(),
            reward=SOLVED_REWARD if solved else TURN_REWARD,
            terminated=solved,
            truncated=truncated,
            stop_reason=StopReason.ENDED if solved else StopReason.TURN_LIMIT if truncated else None,
            answer=self._answer if self._done else None,
            failures=failures,
            info={"solved": solved},
        )

    async def close(self) -> None:
        """Nothing to free: the oracle outlives the game."""

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        """The answer that the agent gets to see, and whether the game is solved."""
        raise NotImplementedError

    async def _ask(self, question: str) -> tuple[str, bool, tuple[Failure, ...]]:
        reply = await self._oracle.reply(
            UserContext(
                problem_description=self._task.problem_description,
                hidden_information=self._task.hidden_information,
                messages=tuple(self._messages),
            )
        )
        if reply.failure is None:
            return (*self._judge(question, reply.content), ())
        failure = replace(reply.failure, turn=self._turns - 1)
        if self._stop_on_user_failure:  # an answer that was not given must not be learned from
            self._done = True
            raise EpisodeError(StopReason.USER_FAILED, failure)
        return self._no_answer, False, (failure,)

    def _question(self, text: str) -> str:
        if self._published:
            return text
        lines = text.strip().splitlines()
        return lines[0].strip().encode("utf-8", "replace").decode() if lines else ""

    def _observe(self) -> Observation:
        return Observation(self._task.task_id, tuple(self._messages), self._seed)


def _names_of(task: Task) -> list[str]:
    """The names by which a task's thing may be guessed, lower case."""
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
    return [name.lower() for name in names]
