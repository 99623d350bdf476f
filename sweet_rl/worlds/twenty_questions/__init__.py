"""Twenty Questions: find out the object by questions that are answered with yes or no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.flags import no_flag
from sweet_rl.types import Task
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.options import AgentRequest
from sweet_rl.worlds.question_games import QuestionGame, QuestionOptions
from sweet_rl.worlds.question_games.asking import Asking

if TYPE_CHECKING:
    from sweet_rl.reflect_data.pretraining import School


class TwentyQuestions(QuestionGame):
    """Twenty Questions: find out one of 157 objects by questions that are answered with yes or no."""

    name = "twenty_questions"
    first_for = "archer"
    train_tasks, test_tasks = "twenty-questions:train", "twenty-questions:test"
    sources = ("twenty-questions",)
    agent_prompt = "llm_agent_twenty_questions_prompt.txt"
    asking = Asking(
        "The object is {hidden}.", 16, "oracle_twenty_questions_prompt", suffix="Yes or No"
    )  # premise, length and suffix as published
    archer_config = "archer_20q"
    games_shown = 4
    agents = ("asker", "hasty", "best", "namer", "random")
    bounds = ("asker", "random")
    takes: ClassVar = {"asker": {"skill": 1.0}, "hasty": {"skill": 0.3}}
    player_rules = (
        "I am thinking of an object. Find out which: ask questions that I can answer with "
        'yes or no, and guess it by its name ("Is it a teapot?"). You have {turns} questions.'
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """The objects of a split, one task each."""
        from sweet_rl.worlds.twenty_questions.tasks import twenty_questions_tasks

        return twenty_questions_tasks(where)

    def maker(self, oracle: User, rules: dict[str, Any]) -> Callable[[], Env]:
        """What makes a fresh game."""
        from sweet_rl.worlds.twenty_questions.env import TwentyQuestionsEnv

        return lambda: TwentyQuestionsEnv(oracle, **rules)

    def asker(self, answers: list[str], **how: Any) -> Policy:
        """Who asks what divides the objects that are still possible."""
        from sweet_rl.worlds.twenty_questions.asker import ObjectAsker
        from sweet_rl.worlds.twenty_questions.oracle.objects import answer

        return ObjectAsker(answer, answers, **how)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """Who asks well, seldom or as well as can be; who names the words in order; who says anything."""
        from sweet_rl.worlds.twenty_questions.asker import HastyAsker
        from sweet_rl.worlds.twenty_questions.bounds import BestAsker, NamingAsker, RandomAsker
        from sweet_rl.worlds.twenty_questions.oracle.objects import answer

        words = [task.hidden_information for task in wanted.tasks]
        prompt, turns = wanted.system_prompt, self.turns(wanted.options)
        if wanted.name == "hasty":
            skill = self.takes["hasty"]["skill"] if wanted.skill is None else wanted.skill
            return HastyAsker(answer, words, skill=skill, max_turns=turns, system_prompt=prompt)
        if wanted.name == "best":
            return BestAsker(answer, words, max_turns=turns, system_prompt=prompt)
        if wanted.name == "namer":
            return NamingAsker(words, system_prompt=prompt)
        if wanted.name == "random":
            return RandomAsker(words, system_prompt=prompt)
        return await super().make_agent(wanted)

    def make_user(self) -> User:
        """Answers from a table of properties."""
        from sweet_rl.worlds.twenty_questions.oracle.objects import ObjectOracle

        return ObjectOracle()

    def school(self) -> School:
        """Games of an asker of middling skill about ten words."""
        from sweet_rl.worlds.twenty_questions.school import SCHOOL

        return SCHOOL

    def template(self, tasks: Sequence[Task]) -> str:
        """Asks for a question in JSON, and names the objects that are played."""
        from sweet_rl.worlds.twenty_questions.tasks import ask_for_object_template

        return ask_for_object_template([task.hidden_information for task in tasks])


@dataclass(frozen=True, kw_only=True)
class TenWordsOptions(QuestionOptions):
    """As `QuestionOptions`."""

    reads_json: bool = no_flag(True)


class TenWords(TwentyQuestions):
    """The same game as ArCHer gives it to models that follow instructions: ten words, questions in JSON."""

    published_names = ("llm_twenty_questions",)
    options = TenWordsOptions
    train_tasks = test_tasks = "twenty-questions:ten"
    archer_config = "archer_llm_20q"
    games_shown = 40


WORLD = TwentyQuestions()
TEN_WORDS = TenWords()
