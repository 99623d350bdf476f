"""Texts back to messages: exactly, or not at all."""

import pytest

from sweet_rl.chat.parsing import ChatParser, UnparsableError
from sweet_rl.errors import UsageError
from sweet_rl.types import Message
from tests.tiny_models import tiny_tokenizer

SYSTEM = Message("system", "Be brief.\n")
ASK, ANSWER = Message("user", "Which\n\none? "), Message("assistant", " The first.\n")
DIALOGUES = [[ASK, ANSWER], [SYSTEM, ASK, ANSWER], [SYSTEM, ASK, ANSWER, Message("user", ""), ANSWER]]

CHATML = (
    "{% if messages[0].role != 'system' %}<|header|>system\nYou help.<|end_turn|>\n{% endif %}"
    "{% for m in messages %}<|header|>{{ m.role }}\n{{ m.content }}<|end_turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant\n{% endif %}"
)
"""A default system text, and a line break behind the end token, as Qwen has them."""

BRACKETS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% elif "
    "m.role == 'assistant' %} {{ m.content }}<|end_turn|>{% else %}{{ raise_exception('no system') }}"
    "{% endif %}{% endfor %}"
)
"""No system role, no header for the assistant but the end of the instruction, as Mistral has them."""

STRIPPED = BRACKETS.replace("{{ m.content }}<", "{{ m.content | trim }}<")
LAST_DIFFERS = (
    "{% for m in messages %}[{{ m.role }}]{% if loop.last %}<|header|>{% endif %}{{ m.content }}{% endfor %}"
)


def parser(template=None):
    return ChatParser(tiny_tokenizer(template) if template else tiny_tokenizer())


@pytest.mark.parametrize("template", [None, CHATML])
@pytest.mark.parametrize("messages", DIALOGUES)
def test_there_and_back(template, messages):
    chat = parser(template)
    text = chat.render(messages)
    assert chat.parse(text) == messages
    assert chat.parse(text.rstrip()) == messages  # as a policy leaves it: nothing behind the end token
    asked = messages[:-1]
    assert chat.parse(chat.render(asked, open_turn=True), open_turn=True) == asked


def test_a_template_without_system_role():
    chat = parser(BRACKETS)
    assert chat.parse("<|begin|>[INST] a [/INST] b<|end_turn|>[INST] c [/INST] d<|end_turn|>") == [
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
        Message("assistant", "d"),
    ]


@pytest.mark.parametrize(
    ("template", "text", "reason"),
    [
        (
            None,
            "In light of it.<|begin|><|header|>user",
            "it does not begin as that does, with '<|begin|><|header|>user",
        ),
        (
            None,
            "<|begin|><|header|>user<|end_header|>\n\na",
            "it has '' where the template writes '<|end_turn|>'",
        ),
        (STRIPPED, "<|begin|>[INST] a [/INST] b \n<|end_turn|>", "at character 27 it has ' \\n<|end_turn|>'"),
    ],
)
def test_what_the_template_does_not_write_is_refused(template, text, reason):
    with pytest.raises(UnparsableError) as raised:
        parser(template).parse(text)
    assert reason in str(raised.value)


def test_an_open_prompt_is_no_closed_dialogue():
    chat = parser()
    with pytest.raises(UnparsableError):
        chat.parse(chat.render([ASK], open_turn=True))
    with pytest.raises(UnparsableError):
        chat.parse(chat.render([ASK, ANSWER]), open_turn=True)


def test_a_template_that_treats_the_last_turn_differently_is_refused():
    with pytest.raises(UsageError, match="does not write every turn alike"):
        parser(LAST_DIFFERS)
