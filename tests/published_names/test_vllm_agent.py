"""The published agent, its server played by a stand-in (tests/vllm has the real one)."""

import json
import sys
from pathlib import Path

import pytest

from sweet_rl.chat import PlainChat, TokenizerChat
from sweet_rl.models.vllm_agent import VLLMAgent
from tests.conftest import ROOT


@pytest.fixture
def python(tmp_path):
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests/policies/fake_vllm.py"} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_texts_stand_where_their_dialogues_stood(python):
    agent = VLLMAgent("M", "Ask first.", 0.5, python=python, chat_format=PlainChat())
    try:
        told = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Why?"}]
        prompts = agent.prompts(["Hi.", None, told])
        first, none, last = agent.get_action(["Hi.", None, told], use_tqdm=False)
        assert agent.get_action([None, None]) == [None, None]
    finally:
        agent.close()
    assert none is None
    assert first == last
    assert first.startswith("pid ")
    assert not Path(f"/proc/{first.removeprefix('pid ')}").exists()
    assert prompts == [
        "### system:\nAsk first.\n\n### user:\nHi.\n\n### assistant:\n",
        None,
        "### system:\nAsk first.\n\n### user:\nHi.\n\n### assistant:\nWhy?\n\n### assistant:\n",
    ]


def test_prompts_are_the_published_ones(shared, python):
    """As text, rules verbatim; finished dialogues have none."""
    folder = shared / "goldens/sweet_rl/c_environment"
    golden = json.loads((folder / "agent_prompt.json").read_text())
    chat = TokenizerChat.from_pretrained(folder / golden["tokenizer"])
    agent = VLLMAgent("M", golden["agent_prompt"], python=python, chat_format=chat)
    try:
        assert agent.prompts(golden["histories"]) == golden["expected"]["formatted_prompts"]
    finally:
        agent.close()
