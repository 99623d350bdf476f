"""The scripted agent behind a server, and what it earns in our own loop; a tiny critic, and rows with its credit."""

import re
import subprocess
import sys

import pytest

import sweet_rl
from tests.conftest import ROOT
from tests.integrations.agent import policy


@pytest.fixture(scope="session")
def agent_url():
    """The base URL of a server whose model `agent` is the scripted agent."""
    command = [sys.executable, "-m", "tests.integrations.agent"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield re.search(r"http://\S+/v1", process.stdout.readline())[0]
        process.terminate()


@pytest.fixture(scope="session")
def earned():
    """What the agent earns in our own loop, by task, for the first 20 tasks of mini:test."""
    episodes = sweet_rl.grade(sweet_rl.simulate("code", "mini:test", agent=policy(), num_tasks=20))
    return {episode.task.task_id: episode.reward for episode in episodes}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A critic, a reference and a policy in folders; the weights of the last two are the same."""
    from tests.tiny_models import save_tiny_llama  # with torch, which most tests here do without

    made = tmp_path_factory.mktemp("models")
    for name, seed in (("critic", 1), ("reference", 0), ("policy", 0)):
        save_tiny_llama(made / name, seed=seed)
    return made


@pytest.fixture(scope="session")
def critic(folder):
    return sweet_rl.Critic(folder / "critic", reference_model=folder / "reference")


@pytest.fixture(scope="session")
def rows(critic):
    """Four dialogues by their tokens, two of each task, with credit."""
    from sweet_rl.integrations.tokens import credited_rows
    from tests.integrations.credit import episodes, hidden
    from tests.tiny_models import tiny_tokenizer

    some = episodes()
    credit = critic.credit_many(hidden(some), [one.dialogue_history for one in some])
    return credited_rows(some, credit, tiny_tokenizer())
