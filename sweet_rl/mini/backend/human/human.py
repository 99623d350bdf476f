"""The scripted human: answers the agent's questions from the hidden function, without a model.

It says what it knows in at most two sentences, admits what it does not know, and never recites the code.
It is deterministic and keeps no state: what it has already answered, it reads from the dialogue.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.mini.backend.human.answers import Answers
from sweet_rl.mini.backend.human.facts import MAX_REPLY, facts_of
from sweet_rl.mini.backend.human.guard import recites
from sweet_rl.mini.backend.human.questions import Intent, Question, questions_in
from sweet_rl.mini.backend.human.words import stems
from sweet_rl.types import Message, UserContext, UserReply

_DONT_KNOW = (
    "I don't know about that.",
    "I'm not sure about that, sorry.",
    "I have no information on that.",
)
_NO_CODE = (
    "I don't have code to give you, I can only say how it should behave.",
    "I can't dictate the code, but ask me about any detail of how it should behave.",
)
_FINE = ("That sounds fine to me.", "Okay, go ahead.", "Sounds good to me.")
_READ = 20_000
"""Characters that are read of the problem, and, its last, of the agent's message and of what was said before."""
_ALL_TOLD = ("That's all I know about it.", "I think you have everything I know.")


class ScriptedHuman:
    """A simulated human that needs no model (contract: `sweet_rl.contracts.User`).

    It holds no state of an episode, so one object serves any number of them at once.
    """

    name = "scripted"

    async def reply(self, context: UserContext) -> UserReply:
        """Answer the agent's last message."""
        return UserReply(
            self.answer(context.problem_description, context.hidden_information, context.messages)
        )

    async def close(self) -> None:
        """Do nothing: the human has no connection."""

    def answer(self, problem_description: str, hidden_information: str, messages: Sequence[Message]) -> str:
        """One or two sentences, at most 400 characters; never raises, whatever the texts are."""
        turn = sum(message.role == "assistant" for message in messages)
        problem_description = problem_description[:_READ]
        asked = messages[-1].content[-_READ:] if messages else ""
        earlier = "\n".join(message.content for message in messages[1:] if message.role == "user")[-_READ:]
        answers = Answers(facts_of(hidden_information), earlier, stems(problem_description))
        sentences = [
            sentence
            for sentence in _sentences(answers, asked, turn)
            if not recites(sentence, hidden_information, problem_description)
        ]
        return _join(sentences) or _one_of(_NO_CODE, turn)


def _sentences(answers: Answers, asked: str, turn: int) -> list[str]:
    """What to say, most important first."""
    questions = questions_in(asked)
    match questions[0].intent:
        case Intent.CODE:
            return [_one_of(_NO_CODE, turn)]
        case Intent.STATEMENT:
            return [_one_of(_FINE, turn)]
    found = [sentences for question in questions if (sentences := _answer(answers, question, asked))]
    if not found:
        only_more = all(question.intent is Intent.MORE for question in questions)
        return [_one_of(_ALL_TOLD if only_more else _DONT_KNOW, turn)]
    if len(found) == 1:
        return found[0]
    return list(dict.fromkeys(sentences[0] for sentences in found))


def _answer(answers: Answers, question: Question, asked: str) -> list[str]:
    if question.intent is Intent.CONFIRM:
        return [answers.objection(asked) or "It sounds right to me."]
    if question.intent is Intent.MORE:
        more = answers.more()
        return [more] if more else []
    return answers.detail(question)


def _join(sentences: Sequence[str]) -> str:
    """The first sentence, and the second if both fit."""
    both = " ".join(sentences[:2])
    return both if len(both) <= MAX_REPLY else sentences[0]


def _one_of(phrases: Sequence[str], turn: int) -> str:
    return phrases[turn % len(phrases)]
