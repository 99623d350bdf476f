"""Reflect-RL's runs: logs and folders, going on after a kill, two processes, and what is kept of play."""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.chat import load_tokenizer
from sweet_rl.chat.reflect_format import CHOICES
from sweet_rl.errors import EpisodeError, NonFiniteError, StorageError, UsageError
from sweet_rl.online.reflect.agent import Agent, label_tokens
from sweet_rl.online.reflect.models import Checkpoints, load_policy, load_reflector, save_agent
from sweet_rl.online.reflect.trainer import Trainer
from sweet_rl.training.models import bare_model
from sweet_rl.types import Failure, StopReason
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
from tests.online.reflect import taxi, two_processes
from tests.online.reflect.tiny import golden
from tests.states import same_state

SHARED = {"use_critic": True, "shared_critic": True}
CRITIC = SHARED | {"trainer": "ppo"}


def run(flags, folder=None, state=None):
    entries = taxi.Entries()
    if folder is not None:
        folder.mkdir(exist_ok=True)
    with taxi.opened(flags, folder, entries) as loop:
        loop.run(state)
        return loop.state(flags.max_steps), entries.all


@pytest.mark.parametrize(
    "extra", [CRITIC, {"reflect": True, "gradient_accumulation_steps": 3}, {"pointing_head": True, **CRITIC}]
)
def test_a_run_that_is_continued_is_the_run_that_was_not_stopped(tmp_path, model, extra, monkeypatch):
    flags = taxi.settings(model, lora_dropout=0.2, **extra)
    whole, entries = run(flags, tmp_path / "a")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(taxi.Entries, "log", killed_in_the_third)
        run(flags, tmp_path / "b")
    state = Checkpoints(tmp_path / "b").newest()
    assert state["done"] == 2
    rest, later = run(flags, tmp_path / "b", state)
    assert later == entries[2:]
    assert same_state(rest, whole)
    assert whole["trainer"]["optimizer"]["state"], "nothing was learnt"


def killed_in_the_third(self, done, entry):
    if entry["iter"] == 2:
        raise KeyboardInterrupt


def test_logs_and_files_are_as_published(tmp_path, model, shared):
    recorded = golden(shared, "rl_loop_and_plots")
    flags = taxi.settings(model, reflect=True, **SHARED)
    run(flags, tmp_path / "run")
    found = tmp_path / "run" / "checkpoint-2"
    logs = json.loads((found / "logs.json").read_text())
    assert [entry["iter"] for entry in logs] == [0, 1]
    assert list(logs[0]) == recorded["log_entry_keys"]
    assert list(logs[0]["log"][0]["detail"][0]) == recorded["detail_keys"]
    for name in ("README.md", "adapter_config.json", "critic/score.pt", "state"):
        assert (found / name).exists()
    first = logs[0]["log"][0]["detail"][0]
    assert first["generation"]["role"] == "assistant"
    assert " # Analyze:\n" in first["prompt"]
    assert first["prompt"].endswith(" # Action:\n")
    total = sum(step["cost"] for step in logs[0]["log"][0]["detail"])
    assert first["Q_value"] == pytest.approx(total)


def test_published_taxi_without_curriculum_never_succeeds(model, shared):
    recorded = golden(shared, "rl_loop_and_plots")["no_taxi_curriculum_succ"]
    flags = taxi.settings(model, taxi_curriculum=False, curriculum_index=-1, compat="published", max_steps=2)
    state, entries = run(flags)
    assert [entry["succ"] for entry in entries] == recorded
    assert state["replay"] == []
    assert [len(entry["log"]) for entry in entries] == [3, 3]  # as many as a micro-batch has rows


def test_successes_are_remembered_and_a_new_level_forgets_them(model, monkeypatch):
    monkeypatch.setattr(TaxiGame, "success_threshold", property(lambda _: 0.52))  # half of them
    changed = {"per_device_eval_batch_size": 8, "max_steps": 3}
    state, entries = run(taxi.settings(model, **changed))
    won = [round(entry["succ"] * 8) for entry in entries]
    assert len(state["replay"]) == sum(won) > won[-1]
    state, entries = run(taxi.settings(model, **changed, curriculum_index=-1))
    assert len(state["replay"]) == round(entries[-1]["succ"] * 8)


def test_episodes_that_the_world_breaks_are_counted_and_nothing_is_learned_from_them(model, monkeypatch):
    """Every third game breaks at its second step, and would have been a success by what it had cost."""
    monkeypatch.setattr(TaxiGame, "success_threshold", property(lambda _: 99.0))
    step, reset, learned = TaxiGame.step, TaxiGame.reset, []

    def counting(game, task, *, seed):
        game.breaks, game.taken = seed % 3 == 0, 0
        return reset(game, task, seed=seed)

    def breaking(game, label):
        game.taken += 1
        if game.breaks and game.taken == 2:
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("lost", "the road is gone"))
        return step(game, label)

    def learn(trainer, episodes):
        learned.extend(episodes)
        return train(trainer, episodes)

    train = Trainer.train
    monkeypatch.setattr(TaxiGame, "reset", counting)
    monkeypatch.setattr(TaxiGame, "step", breaking)
    monkeypatch.setattr(Trainer, "train", learn)
    state, entries = run(taxi.settings(model, per_device_eval_batch_size=12))
    failed = [len(entry.get("failed", ())) for entry in entries]
    assert sum(failed) > 0
    assert [len(entry["log"]) for entry in entries] == [12 - count for count in failed]
    assert all(entry["succ"] == 1 for entry in entries)
    assert all("the road is gone" in text for entry in entries for text in entry.get("failed", ()))
    assert {episode.failure for episode in learned} == {None}
    assert len(state["replay"]) == 48 - sum(failed)


def test_a_critic_of_its_own_reads_without_the_adapter(model):
    flags = taxi.settings(model, use_critic=True, shared_critic=False, max_steps=2)
    _, entries = run(flags)
    assert entries[1]["critic_loss"] != [None, None]
    with taxi.opened(flags) as loop:
        critic = loop._trainer.critic
        before = critic.features(["a b"])
        for parameter in loop._trainer.agent.trainable():
            parameter.data += 0.5
        assert torch.equal(critic.features(["a b"]), before)


def test_labels_that_are_no_tokens_are_refused(model):
    tokenizer = load_tokenizer(model)
    assert len(set(label_tokens(tokenizer, CHOICES))) == 252
    with pytest.raises(UsageError, match=r"none for '1234'.*--pointing_head"):
        label_tokens(tokenizer, ["0", "1234"])


@pytest.mark.parametrize("extra", [{}, {"pointing_head": True}])
def test_without_dropout_the_update_itself_tells_the_critic_its_states(model, extra, monkeypatch):
    """One reading less of each step, and the update is the same."""
    flags = taxi.settings(model, **SHARED, critic_update_freq=1, disable_dropout=True, max_steps=2, **extra)
    once, entries = run(flags)
    monkeypatch.setattr(Trainer, "told_by_the_update", False)
    twice, expected = run(flags)
    losses, plain = ([one["loss"] + one["critic_loss"] for one in its] for its in (entries, expected))
    assert losses == [pytest.approx(one, rel=1e-4, abs=1e-6) for one in plain]
    pairs = zip(once["trainer"]["parameters"], twice["trainer"]["parameters"], strict=True)
    assert all(torch.allclose(one, other, atol=1e-3) for one, other in pairs)
    assert entries[0]["loss"][0] != pytest.approx(0)


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_the_bonus_for_entropy_makes_no_success(model, monkeypatch, compat):
    """Published: a first step that is worth less than the threshold is one, whatever the episode cost."""
    played, train = [], Trainer.train

    def learn(trainer, episodes):
        played.append(list(episodes))
        return train(trainer, episodes)

    monkeypatch.setattr(Trainer, "train", learn)
    flags = taxi.settings(model, entropy_coef=5.0, curriculum_index=2, compat=compat)
    state, entries = run(flags)
    fresh = played[::2]  # then come those of replay
    won = [sum(episode.succeeded for episode in its) / len(its) for its in fresh]
    assert max(won) < 1
    if compat == "fixed":
        assert [entry["succ"] for entry in entries] == won
        costs = [sum(episode.cost for episode in its) / len(its) for its in fresh]
        assert [entry["cost"] for entry in entries] == pytest.approx(costs)
    else:
        assert all(entry["succ"] == 1 and entry["cost"] < -5 for entry in entries)
        assert state["replay"]


def test_without_a_critic_nothing_is_kept_for_one(model):
    state, _ = run(taxi.settings(model))
    assert state["trainer"]["critic_data"] == []
    state, _ = run(taxi.settings(model, **SHARED, critic_update_freq=1000))
    assert len(state["trainer"]["critic_data"]) > 20


@pytest.mark.parametrize(
    ("extra", "what"), [({}, "Update 2 of the policy"), (CRITIC, "Step 1 of the critic")]
)
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(model, extra, what, monkeypatch):
    """The update's losses are finite; a hook makes one of the gradients infinite."""
    trainers, init = [], Trainer.__init__

    def made(trainer, *arguments, **more):
        init(trainer, *arguments, **more)
        trainers.append(trainer)
        weight = trainer.critic.head.score[0].weight if extra else trainer.agent.trainable()[0]
        weight.register_hook(lambda grad: grad * (1 if trainer._updates < 2 else torch.inf))

    monkeypatch.setattr(Trainer, "__init__", made)
    told = rf"{what} is not a finite number \(loss .*, norm .*(inf|nan)\).*--learning_rate"
    with pytest.raises(NonFiniteError, match=told):
        run(taxi.settings(model, **extra))
    (trainer,) = trainers
    modules = [*trainer.agent.modules, *([trainer.critic.head] if extra else [])]
    assert all(weight.isfinite().all() for module in modules for weight in module.parameters())


def test_a_broken_checkpoint_is_put_aside_and_the_one_before_it_goes_on(tmp_path, model, capsys):
    flags = taxi.settings(model, max_steps=3, save_steps=1)
    whole, _ = run(flags, tmp_path / "a")
    assert not (tmp_path / "a/checkpoint-1/state").exists()  # of the newest two only
    (tmp_path / "a/checkpoint-3/state/state.json").write_text("{")
    state = Checkpoints(tmp_path / "a").newest()
    assert state["done"] == 2
    assert "checkpoint-3' is damaged and not used: state/state.json has 1 bytes" in capsys.readouterr().out
    assert (tmp_path / "a/damaged-checkpoint-3/state/state.json").read_text() == "{"
    assert same_state(run(flags, tmp_path / "a", state)[0], whole)
    for name in ("checkpoint-2", "checkpoint-3"):
        (tmp_path / "a" / name / "state/state.safetensors").unlink()
    there = sorted((tmp_path / "a").rglob("*"))
    with pytest.raises(StorageError, match=r"checkpoint-3: .* is missing; checkpoint-2: .*--load_dir"):
        Checkpoints(tmp_path / "a").newest()
    assert sorted((tmp_path / "a").rglob("*")) == there


@pytest.mark.slow
def test_two_processes_do_what_one_does(tmp_path):
    model = taxi.make_model(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-m", "tests.online.reflect.two_processes", model, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=110, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in two_processes.RUNS:
        theirs = torch.load(tmp_path / f"{kind}.pt", weights_only=True)
        parameters, entries = two_processes.run(model, kind)
        for one, other in zip(parameters, theirs["parameters"], strict=True):
            assert torch.allclose(one, other, atol=2e-5)
        for one, other in zip(entries, theirs["entries"], strict=True):
            assert one["cost"] == pytest.approx(other["cost"])
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-3, abs=1e-5)
            assert one["critic_loss"] == pytest.approx(other["critic_loss"], rel=1e-3)


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_a_frozen_adapter_is_part_of_the_weights(tmp_path, model, compat):
    flags = taxi.settings(model, reflect=True)
    trained = load_policy(flags, ["0", "1"])
    with torch.no_grad():
        for parameter in trained.trainable():
            parameter.normal_(std=0.2, generator=torch.Generator().manual_seed(0))
    save_agent(trained.model, trained.tokenizer, tmp_path / "checkpoint-1")
    loaded = {"reflect_load_dir": str(tmp_path / "checkpoint-1"), "lora_alpha": flags.lora_alpha}
    reflector = load_reflector(taxi.settings(model, reflect=True, compat=compat, **loaded))
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        expected, bare = trained.model(ids).logits, usual_model(model)(ids).logits
        assert torch.allclose(reflector.model(ids).logits, expected, atol=1e-4)
    assert not torch.allclose(expected, bare, atol=1e-2)
    assert hasattr(reflector.model, "peft_config") is (compat == "published")


def usual_model(model):
    return AutoModelForCausalLM.from_pretrained(model).eval()


def test_the_fused_activation_is_the_same_function(model):
    flags = taxi.settings(model)
    loaded, usual = bare_model(load_policy(flags, ["0", "1"]).model), usual_model(model)
    kinds = [{type(module).__name__ for module in one.modules()} for one in (loaded, usual)]
    assert ["NewGELUActivation" in kind for kind in kinds] == [False, True]
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, usual(ids).logits, atol=1e-5)


def test_reflections_may_have_a_temperature_of_their_own(model):
    flags = taxi.settings(model, reflect=True, temperature=0.7)
    for changed, expected in (({}, 0.7), ({"reflect_temperature": 0.2}, 0.2)):
        given = replace(flags, **changed)
        assert load_reflector(given).sampling.temperature == expected
        assert load_policy(given, ["0", "1"]).sampling.temperature == 0.7
    told = r"is to write 100,000: of a prompt nothing .* --reflect_max_new_tokens"
    with pytest.raises(UsageError, match=told):
        load_reflector(replace(flags, reflect_max_new_tokens=100_000))


SHARED_CRITIC = SHARED | {"critic_update_freq": 1}


def learned(model, monkeypatch, **changed):
    """Losses, weights and Adam's moments after two iterations; and tokens that were read in the first one."""
    read, first = [], []
    reads = Agent.read

    def counted(agent, sequences, places):
        read.append(sum(map(len, sequences)))
        return reads(agent, sequences, places)

    usual = {"disable_dropout": True, "max_steps": 2, "replay_buffer_size": 0}
    entries = taxi.Entries()

    def log(self, _, entry):
        self.all.append(entry)
        first.append(sum(read))

    flags = taxi.settings(model, **usual | changed)
    with monkeypatch.context() as patch, taxi.opened(flags, watcher=entries) as loop:
        patch.setattr(Agent, "read", counted)
        patch.setattr(taxi.Entries, "log", log)
        loop.run()
        state = loop.state(2)["trainer"]
    adam = state["optimizer"]["state"].values()
    moments = [its[name] for its in adam for name in ("exp_avg", "exp_avg_sq")]
    return [entry["loss"] for entry in entries.all], [*state["parameters"], *moments], first[0]


def alike(states, plain, within=1e-4):
    """Beside the largest of each: moments are far smaller than weights."""
    pairs = zip(states, plain, strict=True)
    return all((one - other).abs().max() <= within * other.abs().max() for one, other in pairs)


@pytest.mark.parametrize("extra", [{}, {"pointing_head": True, **SHARED_CRITIC}])
def test_losses_and_gradients_are_those_of_reading_again(model, monkeypatch, extra):
    losses, states, read = learned(model, monkeypatch, kept_tokens=10**6, **extra)
    expected, plain, read_twice = learned(model, monkeypatch, kept_tokens=0, **extra)
    assert losses == [pytest.approx(one, rel=1e-4) for one in expected]
    assert alike(states, plain)
    assert read * 2 <= read_twice * (1.5 if extra else 1)  # a critic reads once more afterwards
    if not extra:  # what has no room is read again
        some, states, read_some = learned(model, monkeypatch, kept_tokens=700)
        assert some == [pytest.approx(one, rel=1e-4) for one in expected]
        assert alike(states, plain)
        assert read < read_some < read_twice


def test_as_much_is_kept_as_has_room_however_many_play_at_once(model):
    draw = random.Random(0)
    prompts = [" ".join(draw.choices("abcdefgh", k=100)) for _ in range(40)]
    with taxi.opened(taxi.settings(model, disable_dropout=True, kept_tokens=2000)) as loop:
        agent = loop._trainer.agent
        loop._trainer.keep_play()
        agent.choose(prompts, range(40))
        examples = [agent.example(prompt, (0,)) for prompt in prompts]
        kept = [examples[number] for numbers, *_ in agent.kept.take(examples) for number in numbers]
    assert 1000 < sum(len(one.prompt_ids) for one in kept) <= 2000


@pytest.mark.parametrize("common", [0, 90])
def test_texts_are_written_within_the_budget_whatever_they_share(model, common):
    texts = [[5] * common + [number] * (100 - common) for number in range(6, 26)]
    with taxi.opened(taxi.settings(model)) as loop:
        found = list(loop._trainer.agent.batches(texts, 512, written=True))
    assert sorted(number for batch in found for number in batch) == list(range(20))
    assert max(map(len, found)) == 5  # padded, each has a cache of 100 tokens


@pytest.mark.parametrize(
    ("extra", "changes"),
    [
        *(({"disable_dropout": False}, False), ({"gradient_accumulation_steps": 2}, False)),
        *(({"compat": "published"}, False), ({}, True), ({}, False)),
    ],
)  # fmt: skip
def test_nothing_is_kept_where_the_update_computes_something_else(model, extra, changes):
    """Or where the weights have changed."""
    with taxi.opened(taxi.settings(model, **{"disable_dropout": True, **extra})) as loop:
        agent = loop._trainer.agent
        loop._trainer.keep_play()
        agent.choose(["a b"], [0])
        if changes:
            with torch.no_grad():
                agent.trainable()[0].add_(1)
        assert (agent.kept.take([agent.example("a b", (0,))]) == []) is bool(extra or changes)


def test_each_choice_goes_back_through_its_own_row(model):
    """The same prompt twice, one that was not played, and one whose episode failed."""
    with taxi.opened(taxi.settings(model, disable_dropout=True)) as loop:
        agent = loop._trainer.agent
        loop._trainer.keep_play()
        agent.choose(["a b", "c", "a b", "d"], [0, 1, 2, 3])
        examples = [agent.example(prompt, (0,)) for prompt in ("e", "a b", "c", "a b")]
        ((numbers, logits_SV, _),) = agent.kept.take(examples)
        assert sorted(numbers) == [1, 2, 3]
        for number, logits_V in zip(numbers, logits_SV, strict=True):
            expected_KV, _ = agent.read([examples[number].sequence], [[len(examples[number].sequence) - 1]])
            assert torch.allclose(logits_V, expected_KV[0], atol=1e-5)
        assert agent.kept.take(examples) == []
