"""Episodes as the text that the published systems read."""

from sweet_rl.chat.formats import LastObservation, WholeTranscript
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
