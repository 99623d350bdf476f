"""The scripted agent behind a server, and what it earns in our own loop."""

import re
import subprocess
import sys

import pytest

import sweet_rl
from sweet_rl.users.server import start_server
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
def human_url():
    """The base URL of the scripted human's server."""
    with start_server() as server:
        yield server.base_url


@pytest.fixture(scope="session")
def earned():
    """What the agent earns in our own loop, by task, for the first 100 tasks of mini:test."""
    episodes = sweet_rl.grade(sweet_rl.simulate("code", "mini:test", agent=policy(), num_tasks=100))
    return {episode.task.task_id: episode.reward for episode in episodes}
