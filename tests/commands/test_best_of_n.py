"""An agent whose critic chooses among its turns, as a person runs it."""

import json

import pytest

from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError

PLAY = {
    "agent_prompt_path": "llm_agent_mini_prompt",
    "env_model": "scripted",
    "max_turns": 6,
    "max_tokens": 48,
    "num_tasks": 6,
    "quiet": True,
}


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
        ({"agent_model": "embedded", "agent_best_of_n": 4}, "--agent_best_of_n needs --critic"),
        ({"agent_model": "embedded", "critic_sees": "solution"}, "--critic_sees needs --critic"),
        ({"agent_model": "expert", "critic": "embedded"}, "'expert' has one reply only"),
        ({"agent_model": "embedded", "critic": "absent/model"}, "No model could be loaded"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, flags, words):
    with pytest.raises(UsageError, match=words):
        played(tmp_path, "out.jsonl", **flags)
