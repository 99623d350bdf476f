"""The human's prompt as others write it: the hidden function and the dialogue are found, or the request is refused."""

import json

import pytest

from sweet_rl.mini.backend.human import MAX_HIDDEN, ScriptedHuman, context_of
from sweet_rl.users.protocol import ServedMessage
from tests.users.test_server_endpoints import HIDDEN, PROMPT, ask, chat

QUESTION = "What does row 5 cost?"


def single(text):
    return [ServedMessage("system", "You play a person."), ServedMessage("user", text)]


def dialogue(context):
    return [(message.role, message.content) for message in context.messages]


WAYS = {
    "ours": [ServedMessage("user", PROMPT)],
    "an outline": single(f"Task: Price a seat.\nSolution:\n{HIDDEN}\nuser: Price a seat.\nassistant: {QUESTION}\n"),
    "a fence": single(f"# Hidden\n```python\n{HIDDEN}```\n# Talk\n**Human:** Price a seat.\n\n**AI:** {QUESTION}\n---\nAnswer now."),
    "indented": single(f"Hidden code:\n    {HIDDEN.replace(chr(10), chr(10) + '    ')}\nHuman: Price a seat.\nAgent: {QUESTION}\nHuman:"),
    "imports": single(f"import math\n\n@cache\n{HIDDEN}\n\nClient: Price a seat.\nDeveloper: {QUESTION}"),
    "a chat": [ServedMessage("system", f"You wanted this:\n{HIDDEN}"), ServedMessage("assistant", "Price a seat."), ServedMessage("user", QUESTION)],
    "a chat, roles as they are": [ServedMessage("system", HIDDEN), ServedMessage("user", "Price a seat."), ServedMessage("assistant", QUESTION)],
    "a developer's": [ServedMessage("developer", HIDDEN), ServedMessage("assistant", "Price a seat."), ServedMessage("user", QUESTION)],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_hidden_function_and_the_dialogue_are_found(way):
    context = context_of(WAYS[way])
    assert HIDDEN.strip() in context.hidden_information
    assert "Price a seat" in context.problem_description
    assert context.messages[-1].role == "assistant"
    assert "row 5" in context.messages[-1].content
    assert "Answer now" not in context.messages[-1].content
    said = ScriptedHuman().answer(context.problem_description, context.hidden_information, context.messages)
    assert "12" in said


def test_the_first_question_of_a_chat_needs_no_request():
    context = context_of([ServedMessage("system", HIDDEN), ServedMessage("user", QUESTION)])
    assert (context.problem_description, dialogue(context)) == ("", [("assistant", QUESTION)])


def test_prompts_that_the_original_wrote(shared):
    """Recorded requests: the reply is that to the dialogue which the recording holds beside them."""
    cases = json.loads((shared / "goldens/sweet_rl/c_environment/expected.json").read_text())
    calls = [(case, call) for case in cases for call in case["simulator_calls"]]
    assert len(calls) > 20
    read = 0
    for _, call in calls:
        messages = [ServedMessage(message["role"], message["content"]) for message in call["messages"]]
        text = messages[-1].text
        if "def " not in text or "assistant:" not in text:
            continue
        context = context_of(messages)
        assert context.hidden_information.startswith("def ")
        assert context.hidden_information.strip() in text
        entries = text.rpartition("----\n")[0].partition("----\n")[2].split("\n\n\n\n")
        told = [tuple(entry.split(":", 1)) for entry in entries[:-1]]
        assert [(role, content.strip()) for role, content in told] == dialogue(context)
        read += 1
    assert read > 20


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (single("Hello."), "no hidden function in the prompt. It looks for"),
        (single(f"{HIDDEN}\nSay something."), "there is no dialogue in the prompt"),
        (single(f"{HIDDEN}\nassistant: Why?\nuser: Because.\n"), "the dialogue ends with the human"),
        (single(f"user: Help.\nassistant: Like this?\n{HIDDEN}"), "no Python function before the dialogue"),
        (
            [
                ServedMessage("system", "Be brief."),
                ServedMessage("user", "Help."),
                ServedMessage("assistant", HIDDEN),
            ],
            "no hidden function",
        ),
        (single("def broken(:\n    return\nassistant: Why?"), "no Python function before the dialogue"),
        (
            single(f"def f():\n    return '{'x' * MAX_HIDDEN}'\nassistant: Why?"),
            "more than 100,000 characters",
        ),
        (single("def f(:\n" + "    (\n" * 90_000 + "assistant: Why?"), "more than 100,000 characters"),
    ],
)
def test_what_is_not_there_is_said_and_not_answered(messages, says):
    with pytest.raises(ValueError, match=says):
        context_of(messages)


def test_over_http_it_is_a_refusal_that_says_what_is_looked_for():
    status, body = ask("/v1/chat/completions", chat("Please be a human."))
    assert status == 400
    assert "entries like 'user: ...' and 'assistant: ...'" in body["error"]["message"]
    foreign = f"Secret:\n{HIDDEN}\nuser: Price a seat.\nassistant: {QUESTION}\nuser:"
    status, body = ask("/v1/chat/completions", chat(foreign))
    assert status == 200
    assert "12" in body["choices"][0]["message"]["content"]
