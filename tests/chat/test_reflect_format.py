"""The texts of Reflect-RL's two models, against the recorded ones and by hand."""

import json

import pytest

from sweet_rl.chat.reflect_format import (
    ACTION_HEADS,
    ACTION_MARKER,
    ANALYSE_MARKER,
    CHOICES,
    cut_reflection,
    policy_prompt,
    reflection_prompt,
    resolve_label,
    sft_texts,
    split_prompt,
    taxi_sft_texts,
)

TAXI = ACTION_HEADS["dangerous_taxi"]
EXPLORE = ACTION_HEADS["auto_explore"]


@pytest.fixture(scope="module")
def recorded(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


def test_labels():
    assert (len(CHOICES), len(set(CHOICES))) == (252, 252)
    assert (CHOICES[0], CHOICES[199], CHOICES[200], CHOICES[-1]) == ("0", "199", "a", "Z")


def test_taxi_training_texts_as_published(recorded):
    golden = recorded["gen_sft_taxi"]
    made = [
        taxi_sft_texts(one["state"], one["reflection"], str(one["action"]), strict=True)
        for one in golden["input"]
    ]
    texts = [one for one in made if one is not None]
    assert made[2] is None  # a record without a state
    for file, field in (
        ("sft.jsonl", "plain"),
        ("sft_reflection.jsonl", "reflection"),
        ("sft_policy.jsonl", "policy"),
    ):
        assert [getattr(one, field) for one in texts] == [row["text"] for row in golden[file]]


def test_taxi_training_texts_are_by_default_what_the_models_are_shown_later(recorded):
    first, second, _ = recorded["gen_sft_taxi"]["input"]
    texts = taxi_sft_texts(first["state"], "go west", "3", instruction="Play.")
    state = first["state"]
    assert texts.plain == f"{state}{ACTION_MARKER}3"
    assert texts.reflection == f"{reflection_prompt(state, TAXI, instruction='Play.')}go west"
    assert texts.policy == f"{policy_prompt(state, TAXI, 'go west', instruction='Play.')}3"
    spoiled = taxi_sft_texts(second["state"], "pick up", "4")
    assert "Spoiler" in second["state"]
    assert not any("optimal" in text for text in spoiled)
    noted = f"Note that this is optimal.\n{first['state']}"
    assert taxi_sft_texts(noted, "go west", "3", instruction="Play.") == texts


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
