"""The pointing head: scores by hand, what they depend on, what learns, what is saved, what is refused."""

from dataclasses import replace

import pytest
import torch

from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.reflect.agent import Agent, PointingAgent, PointingHead
from sweet_rl.online.reflect.models import Checkpoints, load_policy
from sweet_rl.online.reflect.settings import HEAD_FILE, check, check_head, settings_of, with_saved
from sweet_rl.online.reflect.sft import FineTuning, pointed
from sweet_rl.worlds.text_games import ACTION_HEAD
from tests.online.reflect import taxi
from tests.online.reflect.tiny import logps_of

COMMANDS = ("go north", "open the box", "go to the red door")


def prompt(state, commands=COMMANDS, labels="0123456789"):
    offer = "".join(f"{label}. {command}\n" for label, command in zip(labels, commands, strict=False))
    return f"You see {state}.\n{ACTION_HEAD}\n{offer} # Action:\n"


@pytest.fixture
def agent(model):
    return load(model)


def load(model, **changed):
    return load_policy(taxi.settings(model, pointing_head=True, **changed), (), lambda _: None)


def scores(agent, *prompts):
    with torch.no_grad():
        return agent.scores([agent.example(one, ()) for one in prompts])[0]


def test_scores_by_hand():
    head = PointingHead(2)
    with torch.no_grad():
        head.prompt.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        head.command.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
        # Normalised: (1, -1) and (-1, 1), (1, -1). Projected: (1, -2) and (-3, 1), (3, -1).
        found = head(torch.tensor([5.0, 1.0]), torch.tensor([[0.0, 4.0], [9.0, 7.0]]))
    assert found.tolist() == pytest.approx([-5 / 2**0.5, 5 / 2**0.5], abs=1e-4)


def test_a_score_compares_states_that_the_model_has_alone(agent):
    """Each branch read by itself, by the plain model, without a tree or a batch."""
    example = agent.example(prompt("a lamp"), ())
    with torch.no_grad():
        states = [
            agent.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0, -1]
            for ids in example.sequences
        ]
        expected = agent.head(states[0], torch.stack(states[1:]))
    assert torch.allclose(scores(agent, prompt("a lamp"))[0], expected, atol=1e-5)


def test_states_offer_unlike_numbers_of_commands_and_none_is_chosen_that_is_not_there(agent):
    few, many = prompt("a lamp", COMMANDS[:2]), prompt("a lamp", [f"take {n}" for n in range(9)])
    found = scores(agent, few, many)
    assert found.shape == (2, 9)
    assert found[0, 2:].tolist() == [-torch.inf] * 7
    assert torch.isfinite(found[1]).all()
    assert torch.allclose(found[0, :2], scores(agent, few)[0], atol=1e-5)  # whatever is beside it
    chosen = agent.choose([few] * 40 + [many] * 40, range(80))
    assert {one.text for one in chosen[:40]} == {"0", "1"}
    assert {one.token_ids[0] for one in chosen[40:]} <= set(range(9))
    for one in chosen[:40]:
        logps = found[0, :2].log_softmax(dim=0)
        assert one.logprob == pytest.approx(logps[one.token_ids[0]].item(), abs=1e-5)
        assert one.entropy == pytest.approx(-(logps.exp() * logps).sum().item(), abs=1e-5)


def test_another_order_of_the_commands_is_the_same_order_of_their_scores(agent):
    plain = scores(agent, prompt("a lamp"))[0]
    order = [2, 0, 1]
    moved = scores(agent, prompt("a lamp", [COMMANDS[at] for at in order]))[0]
    assert torch.allclose(moved, plain[order], atol=1e-5)
    assert (plain[0] - plain[1]).abs() > 1e-3
    other_labels = prompt("a lamp", labels="xyz")
    assert torch.allclose(scores(agent, other_labels)[0], plain, atol=1e-5)
    assert {one.text for one in agent.choose([other_labels] * 30, range(30))} <= set("xyz")


def test_the_state_and_the_reflection_before_the_list_count(agent):
    plain, other = scores(agent, prompt("a lamp"), prompt("a lamp. # Analyze:\nI go north"))
    assert (plain - other).abs().max() > 1e-3


def test_gradients_reach_every_adapter_and_the_head(agent):
    for parameter in agent.trainable():  # a fresh adapter is 0 on one side, which hides the other one
        parameter.data += 0.01
    logps_of(agent, [prompt("a lamp"), prompt("a box", COMMANDS[:2])], [(1,), (0,)]).sum().backward()
    named = [(name, one) for module in agent.modules for name, one in module.named_parameters()]
    reached = {name for name, one in named if one.grad is not None and one.grad.abs().sum() > 0}
    # The last layer's output is asked for, and the vocabulary's scores are not.
    assert reached == {name for name, one in named if one.requires_grad}
    assert {"prompt.weight", "command.weight"} <= reached


def test_the_probability_of_a_choice_is_that_of_playing(agent):
    prompts = [prompt("a lamp"), prompt("a box", COMMANDS[:2])]
    chosen = agent.choose(prompts, [3, 4])
    again = logps_of(agent, prompts, [one.token_ids for one in chosen])
    assert again.tolist() == pytest.approx([one.logprob for one in chosen], abs=1e-5)
    batches = list(agent.scored([agent.example(*one) for one in zip(prompts, [(1,), (0,)], strict=True)]))
    assert sorted(number for numbers, *_ in batches for number in numbers) == [0, 1]


def test_a_long_state_loses_its_beginning_and_no_command(agent):
    long = agent.example(prompt("a lamp " * 900), (), room=100)
    assert max(map(len, long.sequences)) == 100
    assert agent.tokenizer.decode(long.prompt_ids).endswith(ACTION_HEAD)
    assert len(agent.example(prompt("a lamp " * 3000), ()).sequences[0]) <= 1024


def test_a_critic_reads_what_the_policy_reads(agent):
    one, other = agent.hidden([prompt("a lamp"), prompt("a lamp", COMMANDS[::-1], labels="zyx")])
    assert torch.allclose(one, other, atol=1e-5)


def fine_tuning(model):
    flags = taxi.settings(
        model, pointing_head=True, per_device_train_batch_size=4, optim="adamw_torch", learning_rate=5e-3,
        gradient_checkpointing=False, max_steps=12,
    )  # fmt: skip
    agent = load_policy(flags, (), lambda _: None)
    texts = [f"{prompt(things, labels=labels)}{labels[at]}" for things, labels, at in LESSONS]
    return FineTuning(agent, pointed(agent, texts, "texts", 500), flags, None, say=lambda _: None)


LESSONS = [("a box", "abc", 1), ("a red door", "xyz", 2), ("the north", "012", 0), ("boxes", "789", 1)]


def test_imitation_learns(model):
    run = fine_tuning(model)
    head = [weight.detach().clone() for weight in run.agent.head.parameters()]
    before = run._update(0)
    run.run(1)
    assert run._log[-1]["loss"] < before - 0.5
    assert not any(map(torch.equal, head, run.agent.head.parameters()))


def test_what_was_saved_is_what_is_loaded_without_being_asked_for(tmp_path, model, agent):
    for parameter in agent.trainable():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    Checkpoints(tmp_path).save(1, agent, {}, summary={})
    folder = tmp_path / "checkpoint-1"
    flags = with_saved(taxi.settings(model, load_dir=str(folder), seed=5), str(folder))
    assert flags.pointing_head
    loaded = load_policy(flags, (), lambda _: None)
    assert isinstance(loaded, PointingAgent)
    found, expected, fresh = (scores(one, prompt("a lamp")) for one in (loaded, agent, load(model)))
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(fresh, expected, atol=1e-2)
    check(replace(flags, mode="test"))
    (folder / HEAD_FILE).write_bytes(b"x")
    with pytest.raises(UsageError, match="does not fit the model"):
        load_policy(flags, (), lambda _: None)


def test_a_policy_that_writes_labels_stays_one(tmp_path, model):
    plain = load_policy(taxi.settings(model), ["0", "1"], lambda _: None)
    assert type(plain) is Agent
    Checkpoints(tmp_path).save(1, plain, {}, summary={})
    folder = str(tmp_path / "checkpoint-1")
    assert not with_saved(taxi.settings(model, load_dir=folder), folder).pointing_head
    flags = taxi.settings(model, load_dir=folder, pointing_head=True)
    check(flags)  # a fresh one learns
    with pytest.raises(UsageError, match="was trained without a pointing head"):
        check(replace(flags, mode="test"))


def test_what_can_have_no_such_head(model, agent):
    for changed, message in (
        ({"env": "guess_my_city"}, "--env guess_my_city offers none.*learning.head"),
        ({"env": "taxi", "mode": "train_SPT", "reflect": True}, "--reflect trains a reflection model"),
    ):
        with pytest.raises(UsageError, match=message):
            check_head(settings_of(pointing_head=True, **changed))
    with pytest.raises(UsageError, match="leave --max_new_tokens at 1"):
        load(model, max_new_tokens=3)
    with pytest.raises(
        UsageError, match=r"offers no commands.*a list of them.*'3. go north'.*You see nothing"
    ):
        agent.choose(["You see nothing. # Action:\n"], [0])
    with pytest.raises(DataError, match=r"line 2.*offers no commands.*name that by --env"):
        pointed(agent, [f"{prompt('a box')}1", "nothing # Action:\n1"], "f.jsonl", 100)
    with pytest.raises(DataError, match=r"line 1.*not on offer.*one of 0, 1, 2"):
        pointed(agent, [f"{prompt('a box')}7"], "f.jsonl", 100)
