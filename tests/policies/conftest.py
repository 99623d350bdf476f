"""Tiny models, made once for each worker."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: for models this small, threads are in the way

from sweet_rl.types import Message, Observation
from tests.tiny_models import save_tiny_gpt2, save_tiny_llama


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory):
    return save_tiny_gpt2(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture
def observe():
    """An observation of a dialogue: contents alternate user, assistant, user, ..."""

    def make(*contents, task_id="t", seed=0):
        messages = (Message(("user", "assistant")[i % 2], content) for i, content in enumerate(contents))
        return Observation(task_id, tuple(messages), seed)

    return make
