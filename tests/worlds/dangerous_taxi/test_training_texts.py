"""Training texts of one recorded step, against the recorded ones."""

import json

import pytest

from sweet_rl.chat.reflect_format import ACTION_MARKER, policy_prompt, reflection_prompt
from sweet_rl.worlds.dangerous_taxi.teacher.lessons import taxi_sft_texts
from sweet_rl.worlds.text_game_world import ACTION_HEAD as TAXI


@pytest.fixture(scope="module")
def recorded(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


def test_taxi_training_texts_as_published(recorded):
    golden = recorded["gen_sft_taxi"]
    made = [
        taxi_sft_texts(one["state"], one["reflection"], str(one["action"]), compat="published")
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
