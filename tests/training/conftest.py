"""One thread, and golden models as folders that a stage can load."""

import json
import shutil

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def a_cache_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def golden(shared):
    return shared / "goldens/sweet_rl/e_dpo"


@pytest.fixture(scope="session")
def expected(golden):
    return json.loads((golden / "expected.json").read_text())


@pytest.fixture(scope="session")
def policy(golden, tmp_path_factory):
    """The golden policy beside its tokenizer."""
    folder = tmp_path_factory.mktemp("golden") / "policy"
    folder.mkdir()
    for path in (*(golden / "policy").iterdir(), *(golden / "tokenizer").iterdir()):
        shutil.copyfile(path, folder / path.name)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A tiny Llama with dropout, so that random states matter."""
    from tests.tiny_models import save_tiny_llama

    folder = save_tiny_llama(tmp_path_factory.mktemp("tiny") / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attention_dropout": 0.1}))
    return folder


@pytest.fixture(scope="session")
def steady(tmp_path_factory):
    """The same without dropout."""
    from tests.tiny_models import save_tiny_llama

    return save_tiny_llama(tmp_path_factory.mktemp("steady") / "model")
