"""PPO and REINFORCE: their losses by hand, what they learn from, and what they refuse."""

import math
from dataclasses import replace

import pytest
import torch

from sweet_rl.commands.archer import _loop_settings
from sweet_rl.commands.archer_config import load_config
from sweet_rl.errors import UsageError
from sweet_rl.online import losses
from sweet_rl.online.policy import Utterance
from sweet_rl.online.replay import transitions
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.records import load_trajectories
from tests.online.models import ROWS
from tests.online.test_learners import drawing, make
from tests.online.test_loop import TRANSCRIPT, Watcher, play


def test_the_clipped_loss_by_hand():
    """Ratios 1.5, 0.5, 1.1 and padding; what has moved too far already counts as if it had not."""
    old = torch.zeros(2, 2)
    new = torch.tensor([[1.5, 0.5], [1.1, 9.0]]).log()
    advantages = torch.tensor([[2.0, -1.0], [-3.0, 5.0]])
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    found = losses.clipped_losses(new, old, advantages, mask, 0.2)
    assert found.tolist() == pytest.approx([-(1.2 * 2 - 0.8), 1.1 * 3])


@pytest.mark.parametrize("kind", ["ppo", "reinforce"])
def test_what_returned_more_becomes_likelier(kind):
    """Two replies to the same words: after one of them the episode went well."""
    first = ROWS[0]
    good, bad = (
        replace(first, action=action, mc_return=worth) for action, worth in (("A?", 0.0), ("B?", -5.0))
    )
    learner = make(kind, actor_epochs=3)

    def odds():
        with torch.no_grad():
            said = [learner.policy.utterance(first.observation, one.action) for one in (good, bad)]
            scores = learner.policy.scores([first.observation] * 2, said).logps_B
        return (scores[0] - scores[1]).item()

    before = odds()
    learner.update(lambda count: [good, bad] * (count // 2), update_actor=True)
    assert odds() > before


def test_ppo_learns_the_values_of_tokens_and_leaves_what_has_moved_enough():
    still = make("ppo", actor_epochs=4, lm_lr=0.0, critic_lr=0.1)
    before = still.policy.value_head.weight.clone()
    info = still.update(drawing(), update_actor=True)
    assert not torch.equal(before, still.policy.value_head.weight)
    assert info["values.loss"] > 0
    wide, narrow = (make("ppo", actor_epochs=8, lm_lr=1e-2, clip_range=range_) for range_ in (10.0, 1e-4))
    first = [p.detach().clone() for p in wide.policy.model.parameters()]
    moved = []
    for learner in (wide, narrow):
        learner.update(drawing(), update_actor=True)
        weights = zip(first, learner.policy.model.parameters(), strict=True)
        moved.append(sum((a - b).pow(2).sum().item() for a, b in weights))
    assert moved[1] < moved[0]


def test_a_single_token_keeps_its_advantage():
    """Normalized or not: the deviation of one number is none."""
    row = drawing()(1)[0]
    moved = []
    for normalize in (True, False):
        learner = make(
            "ppo", normalize_advantages=normalize, max_new_tokens=1, batch_size=1, grad_accum_steps=1
        )
        learner.policy.known_utterance = lambda *_: Utterance("I", (73,), finished=False)
        info = learner.update(lambda _: [row], update_actor=True)
        assert math.isfinite(info["pg.loss"])
        moved.append([p.detach().clone() for p in learner.policy.model.parameters()])
    assert all(map(torch.equal, *moved))


def test_it_learns_from_the_newest_iteration_only_and_from_its_own_discount(tmp_path):
    watcher = Watcher(draws=60)
    play(tmp_path / "run", watcher, on_policy=True, gamma=0.5)
    games = load_trajectories(tmp_path / "run" / "trajectories.jsonl")
    for iteration, seen in enumerate(watcher.seen):
        own = [game for game in games if game.extra["iteration"] == iteration]
        turns = {turn.observation + turn.action for game in own for turn in transitions(game, TRANSCRIPT)}
        assert set(seen) <= turns
    game = next(game for game in games if len(transitions(game, TRANSCRIPT)) >= 3)
    turns = transitions(game, TRANSCRIPT, 0.5)
    assert turns[-2].mc_return == turns[-2].reward + 0.5 * turns[-1].reward


@pytest.mark.parametrize("kind", ["archer", "ppo", "reinforce"])
def test_the_loop_of_a_run_keeps_no_older_games_for_them(kind):
    loop = _loop_settings(load_config("archer_debug", [f"agent_type={kind}", "gamma=0.5"]))
    assert (loop.on_policy, loop.gamma) == ((kind != "archer"), 0.95 if kind == "archer" else 0.5)


def test_published_arithmetic_draws_turn_by_turn():
    with pytest.raises(UsageError, match="compat=published draws turn by turn: leave whole_games out"):
        _loop_settings(load_config("archer_debug", ["whole_games=true", "compat=published"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compat": "published"}, "agent_type=ppo is not part of the published code"),
        ({"shard_with": "fsdp2"}, "shard_with divides no policy of agent_type=ppo"),
        ({"clip_range": 0.0}, "clip_range must be positive"),
    ],
)
def test_what_it_cannot_do_is_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        ArcherSettings(agent_type="ppo", **settings)
    with pytest.raises(UsageError, match="compat=published has two critics"):
        ArcherSettings(compat="published", double_critic=False)
