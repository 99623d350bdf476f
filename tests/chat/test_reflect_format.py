"""The texts of Reflect-RL's two models, against the recorded ones and by hand."""

import json

import pytest

from sweet_rl.chat.reflect_format import (
    ACTION_MARKER,
    ANALYSE_MARKER,
    CHOICES,
    cut_reflection,
    policy_prompt,
    reflection_prompt,
    resolve_label,
    sft_texts,
    split_prompt,
)
from sweet_rl.worlds import world_of

TAXI = world_of("dangerous_taxi").action_head
EXPLORE = world_of("auto_explore").action_head


@pytest.fixture(scope="module")
def recorded(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


def test_labels():
    assert (len(CHOICES), len(set(CHOICES))) == (252, 252)
    assert (CHOICES[0], CHOICES[199], CHOICES[200], CHOICES[-1]) == ("0", "199", "a", "Z")


def test_explore_training_texts(recorded):
    """From the recorded plain text: prompt and label; the two others follow from it."""
    golden = recorded["gen_sft_auto_explore"]
    for plain, reflected, policy in zip(
        *(golden[file] for file in ("sft.jsonl", "sft_reflection.jsonl", "sft_policy.jsonl")), strict=True
    ):
        text, label = plain["text"].split(ACTION_MARKER)
        reflection = reflected["text"].split(ANALYSE_MARKER)[1]
        assert sft_texts(text, EXPLORE, reflection, label) == (
            plain["text"],
            reflected["text"],
            policy["text"],
        )


def test_the_recorded_prompt_of_a_game(shared):
    run = json.loads((shared / "goldens/reflect_rl/rl_loop_and_plots.json").read_text())
    prompt = run["first_detail_prompt"]
    text = prompt.replace("<GAME_INSTRUCTION>\n", "").replace(f"{ANALYSE_MARKER}reflection text ", "")
    text = text.removesuffix(ACTION_MARKER)
    assert policy_prompt(text, TAXI, "reflection text ", instruction="<GAME_INSTRUCTION>") == prompt


def test_prompts_by_hand():
    text = "You see this.\nThe actions you can take now is:\nAction 0: stay\n"
    assert split_prompt(text, TAXI) == (
        "You see this.",
        "\nThe actions you can take now is:\nAction 0: stay\n",
    )
    assert reflection_prompt(text, TAXI) == "You see this. # Analyze:\n"
    assert policy_prompt(text, TAXI) == f"{text} # Action:\n"
    assert policy_prompt(text, TAXI, "", instruction="Hi") == (
        "Hi\nYou see this. # Analyze:\n\nThe actions you can take now is:\nAction 0: stay\n # Action:\n"
    )
    assert policy_prompt("All of it.", None, "Hm.") == "All of it. # Analyze:\nHm. # Action:\n"


def test_the_list_is_the_last_one_in_the_text():
    text = f"A file that says{EXPLORE}\n0. nothing\n{EXPLORE}\n0. cd docs\n"
    assert split_prompt(text, EXPLORE).after == f"{EXPLORE}\n0. cd docs\n"


def test_a_reflection_ends_where_it_acts():
    assert cut_reflection("Go on. # Action:\n3 # Action: 4") == "Go on. "
    assert cut_reflection("Go on.") == "Go on."


@pytest.mark.parametrize(
    ("said", "label"),
    [
        *((said, "1") for said in ("1", " 1 ", "1. id x", "1.", "id x", ".1")),
        ("cat a.b", "0"),
        *((said, None) for said in ("2", "", "id", "1 id x")),
    ],
)
def test_labels_as_agents_write_them(said, label):
    assert resolve_label(said, {"0": "cat a.b", "1": "id x"}) == label
