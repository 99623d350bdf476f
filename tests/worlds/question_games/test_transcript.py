"""Question games as the text that the published system reads."""

import pytest

from sweet_rl.worlds.question_games.game import QuestionTranscript
from tests.chat.test_transcripts import RULES, dialogue


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([], ""),
        (["Questions:\n"], "Questions:\n"),
        (["Questions:\n", "Is it alive?", "Yes."], "Questions:\nIs it alive? Yes.\n"),
        (["Questions:\n", "", "No.", "Is it?"], "Questions:\n No.\nIs it?"),
    ],
)
def test_questions(said, text):
    assert QuestionTranscript().render(dialogue(*said)) == text
    assert QuestionTranscript().render([RULES, *dialogue(*said)]) == text
