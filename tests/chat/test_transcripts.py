"""Episodes as the text that the published systems read."""

import json

import pytest

from sweet_rl.chat.transcripts import (
    LastObservation,
    QuestionTranscript,
    ShopTranscript,
    TemplatedTranscript,
    shop_instruction,
    transcript_of,
)
from sweet_rl.errors import UsageError
from sweet_rl.types import Message


def dialogue(*contents):
    return [Message(("user", "assistant")[index % 2], content) for index, content in enumerate(contents)]


RULES = Message("system", "Be brief.")


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


def test_shop_by_hand():
    page = "\nInstruction:  \na [Search] box \n[Search] "
    assert ShopTranscript().render(dialogue(page, "search[box]", "Page 1 ")) == (
        "\nObservation:\n\nInstruction:  \na [Search] box \n[Search] "
        "\nAction:\nsearch[box]\nObservation:\nPage 1 \nInstruction:\na [Search] box "
    )
    assert ShopTranscript().render([RULES, *dialogue("Closed.")]) == "\nObservation:\nClosed."
    assert ShopTranscript().render([]) == ""


@pytest.mark.parametrize(
    ("page", "instruction"),
    [
        ("Instruction:  \na \n[Search] x \n[Search] ", "a \n[Search] x "),
        ("Instruction:\na \n[Search]", None),
        ("Instruction:  \na", None),
    ],
)
def test_the_instruction_of_a_start_page(page, instruction):
    assert shop_instruction(page) == instruction


def test_shop_as_published(shared):
    """Pages and actions are cut out of the published texts; written again, they are the same texts."""
    expected = json.loads((shared / "goldens/archer/env_expected.json").read_text())
    seen = 0
    for first, *turns in expected["webshop"]["transcripts"]:
        end = f"\nInstruction:\n{first['instruction']}"
        spoken = [Message("user", first["obs"].removeprefix("\nObservation:\n").removesuffix(end))]
        assert ShopTranscript().render(spoken) == first["obs"]
        before = first["obs"].removesuffix(end)
        for turn in turns:
            if not isinstance(turn.get("result"), list):
                continue
            text = turn["result"][0]
            if not text.endswith(end) or turn["result"][2]:
                break
            action = turn["action"].removesuffix("\n")
            page = text.removeprefix(f"{before}\nAction:\n{action}\nObservation:\n").removesuffix(end)
            spoken += [Message("assistant", action), Message("user", page)]
            assert ShopTranscript().render(spoken) == text
            before = text.removesuffix(end)
            seen += 1
    assert seen > 10


def test_last_observation():
    assert LastObservation().render([RULES, *dialogue("A hall.", "go north", "A cave.")]) == "A cave."
    assert LastObservation().render([]) == ""


def test_template():
    chat = TemplatedTranscript('Play: {obs} Write {"Question": "..."}', QuestionTranscript())
    assert chat.render(dialogue("Questions:\n")) == 'Play: Questions:\n Write {"Question": "..."}'
    with pytest.raises(UsageError, match=r"no \{obs\}"):
        TemplatedTranscript("Play.", QuestionTranscript())


def test_formats_by_world():
    names = ["twenty_questions", "guess_my_city", "webshop", "detective", "lantern"]
    names += ["dangerous_taxi", "auto_explore", "alfworld"]
    kinds = [type(transcript_of(name)).__name__ for name in names]
    assert kinds == ["QuestionTranscript"] * 2 + ["ShopTranscript"] + ["LastObservation"] * 5
    with pytest.raises(UsageError, match="'code' has no transcript"):
        transcript_of("code")
