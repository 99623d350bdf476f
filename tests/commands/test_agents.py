"""Agents with a second model: one that reflects, a critic that chooses among turns."""

import json

import pytest

from sweet_rl.chat.reflect_format import ANALYSE_MARKER
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.records import read_rows
from tests.reflect_data.serving import talking

WORLDS = {
    "code": "mini:test",
    "twenty_questions": "twenty-questions:test",
    "dangerous_taxi": "taxi:full:test",
}


def simulated(tmp_path, world, **flags):
    path = tmp_path / f"{world}.jsonl"
    flags = {"reflection_model": "recap", "num_tasks": 3, "quiet": True, "env_model": "scripted"} | flags
    simulate_interactions(WORLDS[world], str(path), task_type=world, **flags)
    return [row for _, row in read_rows(path)]


@pytest.mark.parametrize("world", WORLDS)
def test_in_three_worlds(tmp_path, world):
    for row in simulated(tmp_path, world):
        for number, turn in enumerate(turns_of(row)):
            assert turn["reflection"].startswith(f"{number} step{'' if number == 1 else 's'} so far.")
            assert f"{ANALYSE_MARKER}{turn['reflection']}" in turn["input"]
        assert row["provenance"]["agent_model"].endswith(" after reflections of recap")
        assert row["provenance"]["settings"]["reflect_prob"] == 1.0


def test_a_file_goes_on_with_the_same_reflections_only(tmp_path):
    simulated(tmp_path, "dangerous_taxi")
    simulated(tmp_path, "dangerous_taxi", num_tasks=3, to_continue=True)
    with pytest.raises(UsageError, match="reflect_prob"):
        simulated(tmp_path, "dangerous_taxi", to_continue=True, reflect_prob=0.5)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"reflect_prob": 1.5}, "--reflect_prob must be from 0 to 1"),
        ({"reflection_tokens": 0}, "--reflection_tokens must be at least 1"),
        ({"reflection_api": "talk"}, "--reflection_api must be completions or chat, got 'talk'"),
        ({"reflection_model": "planner"}, "planner is an agent"),
        ({"reflection_prompt_path": "/no/such/file"}, "There is no prompt file"),
        (
            {
                "reflection_model": "m",
                "reflection_base_url": "http://x/v1",
                "reflection_api_key_var": "NO_SUCH",
            },
            "'NO_SUCH', which must hold the server's key, is not set",
        ),
    ],
)
def test_refusals(tmp_path, flags, message):
    with pytest.raises(UsageError, match=message):
        simulated(tmp_path, "dangerous_taxi", **flags)


def turns_of(row):
    return [entry for entry in row["dialogue_history"] if entry["role"] == "assistant"]


def test_a_model_behind_a_server(tmp_path):
    """The model is asked with its own prompt, its own length, and without the list of actions."""
    asked = []
    flags = {"num_tasks": 1, "reflection_model": "m", "agent_api": "chat", "reflection_tokens": 17}
    with talking(lambda _: "Go on.", asked=asked) as address:
        (row,) = simulated(tmp_path, "dangerous_taxi", reflection_base_url=address, **flags)
    assert [turn["reflection"] for turn in turns_of(row)] == ["Go on."] * len(asked)
    for request in asked:
        assert (request["model"], request["max_tokens"]) == ("m", 17)
        system, user = request["messages"]
        assert system["content"].startswith("You advise somebody")
        assert "--- Current State ---" in user["content"]
        assert "The actions you can take" not in json.dumps(request)
        assert user["content"].rstrip().endswith("Do not take the step yourself.")


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("own_key", [False, True])
def test_the_two_models_may_be_behind_different_servers(tmp_path, monkeypatch, api, own_key):
    """What the reflection model's flags do not say is said by the agent's; the agent keeps its own."""
    monkeypatch.setenv("ACTING_KEY", "of the agent")
    monkeypatch.setenv("THINKING_KEY", "of the reflection model")
    flags = {"reflection_api": "chat"} if api == "chat" else {}
    flags |= {"reflection_api_key_var": "THINKING_KEY"} if own_key else {}
    flags |= {"agent": "openai", "agent_model": "m", "agent_api_key_var": "ACTING_KEY", "num_tasks": 1}
    acted, thought = [], []
    with (
        talking(lambda _: "0", asked=acted) as acting,
        talking(lambda _: "Look first.", asked=thought) as thinking,
    ):
        flags |= {"agent_base_url": acting, "reflection_base_url": thinking, "reflection_model": "m"}
        (row,) = simulated(tmp_path, "dangerous_taxi", max_steps=2, **flags)
    turns = turns_of(row)
    assert turns
    assert [turn["reflection"] for turn in turns] == ["Look first."] * len(thought)
    path = "/v1/chat/completions" if api == "chat" else "/v1/completions"
    key = "of the reflection model" if own_key else "of the agent"
    assert {(request["path"], request["key"]) for request in thought} == {(path, key)}
    assert {(request["path"], request["key"]) for request in acted} == {("/v1/completions", "of the agent")}
    assert all("Look first." in request["prompt"] for request in acted)


def test_a_model_that_drives_sees_the_present_alone(tmp_path):
    asked = []
    flags = {
        "reflection_model": None,
        "agent_model": "m",
        "agent_api": "chat",
        "num_tasks": 1,
        "max_steps": 3,
    }
    with talking(lambda _: "0", asked=asked) as address:
        (row,) = simulated(tmp_path, "dangerous_taxi", agent_base_url=address, **flags)
    said = [entry["content"] for entry in row["dialogue_history"] if entry["role"] == "user"]
    assert len(asked) > 1
    for request, text in zip(asked, said, strict=False):
        assert [message["role"] for message in request["messages"]] == ["system", "user"]
        assert request["messages"][1]["content"] == text
    assert len({request["seed"] for request in asked}) == len(asked)


PLAY = {"agent_prompt_path": "llm_agent_mini_prompt", "env_model": "scripted", "quiet": True}
PLAY |= {"max_turns": 6, "max_tokens": 48, "num_tasks": 6}


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def played(tmp_path, name, **flags):
    simulate_interactions("mini:dev", tmp_path / name, **PLAY, **flags)
    return [[m["content"] for m in row["dialogue_history"]] for row in rows_of(tmp_path / name)]


def test_a_critic_chooses_among_turns(tmp_path):
    embedded = {"agent_model": "embedded", "critic": "embedded"}
    alone = played(tmp_path, "alone.jsonl", agent_model="embedded")
    assert played(tmp_path, "one.jsonl", **embedded) == alone
    blind = played(tmp_path, "blind.jsonl", **embedded, agent_best_of_n=4)
    sighted = played(tmp_path, "sighted.jsonl", **embedded, agent_best_of_n=4, critic_sees="solution")
    assert blind not in (alone, sighted)
    settings = rows_of(tmp_path / "sighted.jsonl")[0]["provenance"]["settings"]
    assert (settings["agent_best_of_n"], settings["critic_sees"]) == (4, "solution")
    assert "critic" not in rows_of(tmp_path / "alone.jsonl")[0]["provenance"]["settings"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"agent_best_of_n": 4}, "--agent_best_of_n needs --critic"),
        ({"critic_sees": "solution"}, "--critic_sees needs --critic"),
        ({"agent_model": "expert", "critic": "embedded"}, "'expert' always gives the same reply"),
        ({"critic": "absent/model"}, "No model could be loaded"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, flags, words):
    with pytest.raises(UsageError, match=words):
        played(tmp_path, "out.jsonl", **{"agent_model": "embedded"} | flags)
