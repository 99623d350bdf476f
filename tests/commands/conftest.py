"""What tests of several stages begin with."""

import pytest

from tests.tiny_models import save_tiny_llama


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders of two tiny models of the same tokenizer."""
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    return {
        name: str(save_tiny_llama(folder / name, seed=seed)) for seed, name in enumerate(("policy", "critic"))
    }
