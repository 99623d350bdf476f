"""Visits to a shop as the text that the published system reads."""

import json

import pytest

from sweet_rl.types import Message
from sweet_rl.worlds.webshop.pages import CLOSED, ShopTranscript, shop_instruction
from tests.chat.test_transcripts import RULES, dialogue


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
    seen = limits = 0
    for first, *turns in expected["webshop"]["transcripts"]:
        end = f"\nInstruction:\n{first['instruction']}"
        spoken = [Message("user", first["obs"].removeprefix("\nObservation:\n").removesuffix(end))]
        assert ShopTranscript().render(spoken) == first["obs"]
        before = first["obs"].removesuffix(end)
        for turn in turns:
            if not isinstance(turn.get("result"), list):
                continue
            text = turn["result"][0]
            action = turn["action"].removesuffix("\n")
            if text == before and turn["result"][1:] == [0.0, True]:  # the turn after the last
                closed = [*spoken, Message("assistant", action), Message("user", CLOSED)]
                assert ShopTranscript().render(closed) == text
                limits += 1
            if not text.endswith(end) or turn["result"][2]:
                break
            page = text.removeprefix(f"{before}\nAction:\n{action}\nObservation:\n").removesuffix(end)
            spoken += [Message("assistant", action), Message("user", page)]
            assert ShopTranscript().render(spoken) == text
            before = text.removesuffix(end)
            seen += 1
    assert seen > 10
    assert limits == 1
