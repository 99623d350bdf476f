"""Twenty Questions: which of 157 objects is it? The oracle says yes or no.

Rules of what counts exist twice: ours, the default, and the published ones, whose names end in `_published`.
Published behaviour: docs/published/archer.md#twenty-questions, #ten-words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import ClassVar, Final

from sweet_rl.flags import group, no_flag
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.options import Answers, Archer, TaskLists
from sweet_rl.worlds.question_games import (
    FIRST_OBSERVATION,
    Asking,
    QuestionGame,
    QuestionGameEnv,
    QuestionOptions,
    split_of,
    without_tail,
    words_of,
    written_question,
)

YES, NO = "Yes.", "No."
INVALID_QUESTION = "Invalid Question."  # the reply to a text that is no yes-or-no question

# Places in the whole list, counted from 0. Four questions tell the sixteen apart, whatever the answers.
TEN_OBJECTS: Final = (1, 11, 21, 31, 41, 51, 61, 71, 81, 91)
SIXTEEN_OBJECTS: Final = (0, 1, 7, 15, 21, 31, 36, 58, 61, 70, 73, 89, 91, 113, 123, 147)

_POLARITY = dict.fromkeys(("yes", "yeah", "yep"), YES) | dict.fromkeys(
    ("no", "nope", "not", "isnt", "arent", "doesnt"), NO
)
_UNSURE = re.compile(
    r"\b(not (sure|certain|clear|applicable)|no (idea|answer|clue)|do(nt| not) (know|understand))\b"
)


def twenty_questions_tasks(split: str = "") -> Rows:
    """The objects: all, "ten", "sixteen", "train" or "test"."""
    rows: Rows = []
    for line in files(__package__).joinpath("objects.txt").read_text("utf-8").splitlines():
        category, _, objects = line.partition(": ")
        for names in objects.split(", "):
            aliases = names.lower().split(";")  # the oracle is given the first
            rows.append(
                {
                    "task_id": f"twenty_questions/{len(rows)}",
                    "problem_description": FIRST_OBSERVATION,
                    "ground_truth": aliases[0],
                    "hidden_information": aliases[0],
                    "aliases": aliases,
                    "category": category,
                }
            )
    if split in ("ten", "sixteen"):
        return [rows[index] for index in (TEN_OBJECTS if split == "ten" else SIXTEEN_OBJECTS)]
    return split_of(rows, split, "twenty-questions", ("ten", "sixteen", "train", "test"))


def ask_for_object_template(words: Sequence[str] | None = None) -> str:
    """The instruction for chat models, with `{obs}` where the game goes: the published one in our words."""
    named = [row["ground_truth"] for row in twenty_questions_tasks("ten")] if words is None else words
    return fill(load_prompt("ask_for_object_prompt"), words=", ".join(named))


def ends_with_name(question: str, names: Iterable[str]) -> bool:
    """Whether a question ends in one of an object's names, all words of it: "Is it a lawn mower?". Spaces and
    numbers behind it make no difference, a regular plural is as good; what stands before does not matter."""
    words = words_of(question)
    while words and words[-1].isdigit():
        words.pop()
    endings = {"".join(words[-count:]) for count in range(1, len(words) + 1)}
    spelled = ["".join(words_of(name)) for name in names]
    return any(name in endings or _plural(name) in endings for name in spelled)


def _plural(name: str) -> str:
    """The regular English plural."""
    if name.endswith("y") and name[-2:-1] not in set("aeiou"):
        return f"{name[:-1]}ies"
    if name.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{name}es"
    return f"{name[:-2]}ves" if name.endswith("fe") else f"{name}s"


def yes_or_no(reply: str) -> str:
    """What an oracle means: its first word that says yes or no; "not sure" and the like are invalid."""
    words = words_of(reply)
    if _UNSURE.search(" ".join(words)):
        return INVALID_QUESTION
    return next((_POLARITY[word] for word in words if word in _POLARITY), INVALID_QUESTION)


class TwentyQuestionsEnv(QuestionGameEnv):
    """Solved when a question ends in one of the object's names and the answer to it is yes."""

    _no_answer = INVALID_QUESTION

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        if self._published:
            # "yes" and "no" count within other words, too; the last word alone has to be a name, which 7 objects have not
            said = reply.lower()
            answer = YES if "yes" in said else NO if "no" in said else INVALID_QUESTION
            named = without_tail(question).split(" ")[-1].lower() in self._names
        else:
            answer, named = yes_or_no(reply), ends_with_name(question, self._names)
        return answer, answer == YES and named


class TwentyQuestions(QuestionGame):
    """Twenty Questions: find out one of 157 objects by questions that are answered with yes or no."""

    name = "twenty_questions"
    tasks = TaskLists("twenty-questions:train", "twenty-questions:test")
    user = Answers(
        by="oracle",
        scripted="sweet_rl.mini.objects.oracle:ObjectOracle",
        oracle=Asking(  # premise, length and suffix as published
            "The object is {hidden}.", 16, "oracle_twenty_questions_prompt", suffix="Yes or No"
        ).open,
    )
    game = TwentyQuestionsEnv
    player = "sweet_rl.mini.objects.asker:make_player"
    archer = Archer(
        config="archer_20q",
        games_shown=4,
        template=lambda tasks: ask_for_object_template([task.hidden_information for task in tasks]),
        shown_action=written_question,
    )
    agents: ClassVar = {
        "asker": {"skill": 1.0},
        "hasty": {"skill": 0.3},
        "best": {},
        "namer": {},
        "random": {},
    }
    system_prompt = load_prompt("llm_agent_twenty_questions_prompt")
    player_rules = (
        "I am thinking of an object. Find out which: ask questions that I can answer with "
        'yes or no, and guess it by its name ("Is it a teapot?"). You have {turns} questions.'
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        return twenty_questions_tasks(where)


@group("As `QuestionOptions`")
class TenWordsOptions(QuestionOptions):
    reads_json: bool = no_flag(True)


class TenWords(TwentyQuestions):
    """The same game as ArCHer gives it to models that follow instructions: ten words, questions in JSON."""

    options = TenWordsOptions
    tasks = TaskLists("twenty-questions:ten", "twenty-questions:ten")
    archer = replace(TwentyQuestions.archer, config="archer_llm_20q", games_shown=40)


WORLD = TwentyQuestions()
TEN_WORDS = TenWords()
