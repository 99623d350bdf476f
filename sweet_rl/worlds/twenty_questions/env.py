"""The episode of Twenty Questions: which object is it? The oracle says yes or no.

Published behaviour: docs/published/archer.md#twenty-questions, #ten-words.
"""

from __future__ import annotations

from sweet_rl.worlds.question_games.env import QuestionGameEnv
from sweet_rl.worlds.twenty_questions import guessing


class TwentyQuestionsEnv(QuestionGameEnv):
    """Which of the objects is it? The oracle says yes or no.

    Solved when a question ends in one of the object's names and the answer to it is yes. The repaired rules
    read both as people do (`guessing.ends_with_name`, `guessing.yes_or_no`), so that all 157 objects can be
    won; the published ones compare the last word alone and find "no" in "know".
    """

    _no_answer = guessing.INVALID_QUESTION

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        if self._published:
            answer = guessing.yes_or_no_published(reply)
            named = guessing.ends_with_name_published(question, self._names)
        else:
            answer = guessing.yes_or_no(reply)
            named = guessing.ends_with_name(question, self._names)
        return answer, answer == guessing.YES and named
