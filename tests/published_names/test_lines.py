"""Module names and paths in the READMEs' command lines: each is a stage of ours; the agent in a vLLM server."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from sweet_rl.chat import PlainChat, TokenizerChat
from sweet_rl.cli.main import stages
from sweet_rl.models.vllm_agent import VLLMAgent
from sweet_rl.published_names.reflect_rl import STAGES
from tests.conftest import ROOT


@pytest.mark.parametrize("name", STAGES)
def test_every_module_of_reflect_rl_is_a_stage(name):
    found = find_spec(f"sweet_rl.reflect_rl.{name}")
    assert f'run("reflect {STAGES[name]}")' in found.loader.get_source(found.name)
    assert f"reflect {STAGES[name]}" in stages()


def test_both_paths_of_accelerates_file_resolve():
    paths = [ROOT / "scripts" / name for name in ("config/accelerate_config", "accelerate_config")]
    one, other = (yaml.safe_load((path / "default_config.yaml").read_text()) for path in paths)
    assert one == other
    assert one["num_processes"] == 1
    assert (ROOT / "scripts/config/archer_20q.yaml").is_file()


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
