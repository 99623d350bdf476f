"""What the published agents make of the text that their model wrote."""

import pytest
import torch

from sweet_rl.errors import UsageError
from sweet_rl.online.published import PublishedPolicy
from sweet_rl.online.settings import ArcherSettings
from tests.online.models import policy_model, policy_tokenizer


def said(texts, monkeypatch, **more):
    """`get_action` of a model that writes these texts."""
    told = ArcherSettings(compat="published", **more)
    model = policy_model()
    policy = PublishedPolicy(model, policy_tokenizer(), told, keep_end=told.agent_type == "chai")

    def generate(input_ids, **_):
        width = max(len(text.encode()) for text in texts)
        new = [[*text.encode(), *[256] * (width - len(text.encode()))] for text in texts]
        return torch.cat([input_ids, torch.tensor(new)], dim=1)

    monkeypatch.setattr(model, "generate", generate)
    return policy.get_action(["o"] * len(texts))


WRITTEN = ["Is it?\nmore", "\n\n\nIs it?\nmore", "\n\n\n\nIs it?", "\nA\n", "no end", "", "\n \nB\n"]


def test_up_to_three_leading_newlines_are_dropped_by_both_agents(monkeypatch):
    """Then the text is cut at its end, which only Online CHAI keeps."""
    cut = ["Is it?", "Is it?", "", "A", "no end", "", " "]
    assert said(WRITTEN, monkeypatch) == cut
    assert said(WRITTEN, monkeypatch, agent_type="chai") == [f"{text}\n" for text in cut]


def test_newlines_are_dropped_whatever_ends_an_utterance(monkeypatch):
    written = ["\n\n\n\nA\nB; C", "\n\nA"]
    assert said(written, monkeypatch, eos_str=";") == ["\nA\nB", "A"]
    assert said(written, monkeypatch, eos_str=";", agent_type="chai") == ["\nA\nB;", "A;"]
    assert said(written, monkeypatch, eos_str=None) == ["\nA\nB; C", "A"]


def test_published_chai_needs_an_end():
    with pytest.raises(UsageError, match="eos_str"):
        ArcherSettings(compat="published", agent_type="chai", eos_str=None)
    ArcherSettings(agent_type="chai", eos_str=None)
