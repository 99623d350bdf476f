"""What the policy read in play is read no second time by the update, and the update is the same."""

import random

import pytest
import torch

from sweet_rl.online.reflect.agent import Agent
from tests.online.reflect import taxi

CRITIC = {"use_critic": True, "shared_critic": True, "critic_update_freq": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taxi.make_model(tmp_path_factory.mktemp("model"))


def learned(model, monkeypatch, **changed):
    """Losses, weights and Adam's moments after two iterations; and tokens that were read in the first one."""
    read, first = [], []
    reads = Agent.read

    def counted(agent, sequences, places):
        read.append(sum(map(len, sequences)))
        return reads(agent, sequences, places)

    flags = taxi.settings(
        model, **{"disable_dropout": True, "max_steps": 2, "replay_buffer_size": 0, **changed}
    )
    entries = taxi.Entries()
    with monkeypatch.context() as patch, taxi.opened(flags, watchers=[entries]) as loop:
        patch.setattr(Agent, "read", counted)
        patch.setattr(
            taxi.Entries, "log", lambda self, _, entry: (self.all.append(entry), first.append(sum(read)))
        )
        loop.run()
        state = loop.state(2)["trainer"]
    moments = [
        one for its in state["optimizer"]["state"].values() for one in (its["exp_avg"], its["exp_avg_sq"])
    ]
    return [entry["loss"] for entry in entries.all], [*state["parameters"], *moments], first[0]


def alike(states, plain, within=1e-4):
    """Beside the largest of each: moments are far smaller than weights."""
    pairs = zip(states, plain, strict=True)
    return all((one - other).abs().max() <= within * other.abs().max() for one, other in pairs)


@pytest.mark.parametrize("extra", [{}, CRITIC, {"pointing_head": True}, {"pointing_head": True, **CRITIC}])
def test_losses_and_gradients_are_those_of_reading_again(model, monkeypatch, extra):
    losses, states, read = learned(model, monkeypatch, kept_tokens=10**6, **extra)
    expected, plain, read_twice = learned(model, monkeypatch, kept_tokens=0, **extra)
    assert losses == [pytest.approx(one, rel=1e-4) for one in expected]
    assert alike(states, plain)
    assert read * 2 <= read_twice * (
        1.5 if extra.get("use_critic") else 1
    )  # a critic reads once more afterwards


def test_what_has_no_room_is_read_again(model, monkeypatch):
    some, states, read = learned(model, monkeypatch, kept_tokens=700)
    none, plain, read_twice = learned(model, monkeypatch, kept_tokens=0)
    *_, read_once = learned(model, monkeypatch, kept_tokens=10**6)
    assert some == [pytest.approx(one, rel=1e-4) for one in none]
    assert alike(states, plain)
    assert read_once < read < read_twice


def test_as_much_is_kept_as_has_room_however_many_play_at_once(model):
    draw = random.Random(0)
    prompts = [" ".join(draw.choices("abcdefgh", k=100)) for _ in range(40)]
    with taxi.opened(taxi.settings(model, disable_dropout=True, kept_tokens=2000)) as loop:
        agent = loop._trainer.agent
        loop._trainer.keep_play()
        agent.choose(prompts, range(40))
        examples = [agent.example(prompt, (0,)) for prompt in prompts]
        assert sum(len(one.prompt_ids) for one in examples) > 2 * 2000
        kept = [examples[number] for read in agent.kept.take(examples) for number in read.numbers]
    assert 1000 < sum(len(one.prompt_ids) for one in kept) <= 2000


@pytest.mark.parametrize("common", [0, 90])
def test_texts_are_written_within_the_budget_whatever_they_share(model, common):
    texts = [[5] * common + [number] * (100 - common) for number in range(6, 26)]
    with taxi.opened(taxi.settings(model)) as loop:
        found = list(loop._trainer.agent.batches(texts, 512, written=True))
    assert sorted(number for batch in found for number in batch) == list(range(20))
    assert max(map(len, found)) == 5  # padded, each has a cache of 100 tokens


@pytest.mark.parametrize(
    "extra", [{"disable_dropout": False}, {"gradient_accumulation_steps": 2}, {"compat": "published"}]
)
def test_nothing_is_kept_where_the_update_computes_something_else(model, extra):
    with taxi.opened(taxi.settings(model, **{"disable_dropout": True, **extra})) as loop:
        trainer = loop._trainer
        trainer.keep_play()
        trainer.agent.choose(["a b"], [0])
        assert trainer.agent.kept.take([trainer.agent.example("a b", (0,))]) == []


def test_other_weights_have_read_nothing(model):
    with taxi.opened(taxi.settings(model, disable_dropout=True)) as loop:
        agent = loop._trainer.agent
        example = agent.example("a b", (0,))
        for changes in (False, True):
            loop._trainer.keep_play()
            agent.choose(["a b"], [0])
            if changes:
                with torch.no_grad():
                    agent.trainable()[0].add_(1)
            assert (agent.kept.take([example]) == []) is changes


def test_each_choice_goes_back_through_its_own_row(model):
    """The same prompt twice, one that was not played, and one whose episode failed."""
    with taxi.opened(taxi.settings(model, disable_dropout=True)) as loop:
        agent = loop._trainer.agent
        loop._trainer.keep_play()
        agent.choose(["a b", "c", "a b", "d"], [0, 1, 2, 3])
        examples = [agent.example(prompt, (0,)) for prompt in ("e", "a b", "c", "a b")]
        (found,) = agent.kept.take(examples)
        assert sorted(found.numbers) == [1, 2, 3]
        for number, logits_V in zip(found.numbers, found.logits_SV, strict=True):
            expected_KV, _ = agent.read([examples[number].sequence], [[len(examples[number].sequence) - 1]])
            assert torch.allclose(logits_V, expected_KV[0], atol=1e-5)
        assert agent.kept.take(examples) == []
