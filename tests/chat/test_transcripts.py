"""Episodes as the text that the published systems read."""

import pytest

from sweet_rl.chat.transcripts import LastObservation, TemplatedTranscript, WholeTranscript
from sweet_rl.errors import UsageError
from sweet_rl.types import Message


def dialogue(*contents):
    return [Message(("user", "assistant")[index % 2], content) for index, content in enumerate(contents)]


RULES = Message("system", "Be brief.")


def test_last_observation():
    assert LastObservation().render([RULES, *dialogue("A hall.", "go north", "A cave.")]) == "A cave."
    assert LastObservation().render([]) == ""


def test_whole_transcript():
    assert WholeTranscript().render([RULES, *dialogue("A hall.", "north")]) == "A hall.\nnorth\n"
    assert WholeTranscript().render([]) == ""


def test_template():
    chat = TemplatedTranscript('Play: {obs} Write {"Question": "..."}', WholeTranscript())
    assert chat.render(dialogue("Questions:")) == 'Play: Questions:\n Write {"Question": "..."}'
    with pytest.raises(UsageError, match=r"no \{obs\}"):
        TemplatedTranscript("Play.", WholeTranscript())
