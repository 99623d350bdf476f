"""What a critic is asked about: anything but dialogues and hidden information of text is named before it is scored."""

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.credit import hidden_of, messages_of

ASKED = {"role": "user", "content": "Please write f."}
SAID = {"role": "assistant", "content": "What should it return?"}


@pytest.mark.parametrize("value", [5, ["def f(): pass"], b"def f(): pass", {"a": 1}, 0.5, "\ud800"])
def test_hidden_information_that_is_no_text_is_named(value):
    with pytest.raises(
        DataError, match=r"field 'hidden\[3\]' (must be a text|is no text that can be tokenised)"
    ):
        hidden_of(value, "hidden[3]")


@pytest.mark.parametrize("value", [None, "", "def f(): pass"])
def test_hidden_information_is_as_it_was_given(value):
    assert hidden_of(value, "hidden") == value


@pytest.mark.parametrize(
    ("dialogue", "says"),
    [
        (None, "'d' must be a list of messages, got None"),
        ("Hello", "'d' must be a list of messages, got 'Hello'"),
        ([SAID], r"'d\[0\]' is a turn of the agent behind nothing.* Put what it was asked before it"),
        ([ASKED, 5], r"'d\[1\]' must be a message, got 5"),
        ([ASKED, SAID | {"content": "\ud800"}], r"'d\[1\].content' is no text that can be tokenised"),
    ],
)
def test_what_is_no_dialogue_of_text_is_named(dialogue, says):
    with pytest.raises(DataError, match=says):
        messages_of(dialogue, "d")


def test_a_turn_that_brings_its_prompt_needs_nothing_before_it():
    (turn,) = messages_of([SAID | {"input": "USER: Please write f. AGENT:"}])
    assert turn.input == "USER: Please write f. AGENT:"
