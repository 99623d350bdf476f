"""The ceiling and the floors of a measurement: a world's own agents, a linear policy."""

import pytest
import torch

from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.online.reflect.agent import Sampling
from sweet_rl.online.reflect.loop import measure, scripted, summary
from sweet_rl.online.reflect.play import Played, Step, open_playground
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.studies.linear_policy import LinearActor, counted
from sweet_rl.types import Failure, StopReason
from sweet_rl.worlds import world_of
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
from tests.online.reflect import taxi

HEAD = "\nThe actions you can take now is:"


def text(state, label="", commands=("go left", "go right")):
    offer = "".join(f"Action {number}: {command}\n" for number, command in enumerate(commands))
    return f"{state}\n{HEAD}\n{offer} # Action:\n{label}"


def linear(lessons):
    return LinearActor(HEAD, Sampling()).fit(lessons, "f.jsonl")


def test_what_a_linear_policy_learns():
    """Words of a state beside those of a command, and letters of a picture at their places."""
    policy = linear([text("the lamp is red", 0), text("the lamp is green", 1)] * 10)
    assert policy.places([text("a red box"), text("a green box")]) == [0, 1]
    left, right = "+---+\n|T: |\n+---+", "+---+\n| :T|\n+---+"
    assert linear([text(left, 1), text(right, 0)] * 10).places([text(left), text(right)]) == [1, 0]
    with pytest.raises(DataError, match=r"line 2.*no command of its list"):
        linear([text("a", 0), text("a", 7)])


def test_words_that_a_command_shares_with_a_part_of_the_state():
    """Which words they are is of no importance: those of the test were in no lesson."""
    names = [f"w{chr(97 + n)}x" for n in range(20)]
    lessons = [
        text(f"# Task\nfind {one if first else other}", int(not first), (f"open {one}", f"open {other}"))
        for one, other in zip(names[:10], names[10:], strict=True)
        for first in (True, False)
    ]
    offer = ("open ship", "open boat")
    wanted = [text(f"# Task\nfind {it}", "", offer) for it in ("ship", "boat")]
    assert linear(lessons).places(wanted) == [0, 1]


def test_a_choice_depends_on_the_prompt_and_its_seed():
    policy = linear([text("the lamp is red", 0), text("the lamp is green", 1)])
    prompts = [text("the lamp is red")] * 20
    chosen = policy.choose(prompts, range(20))
    assert chosen == [policy.choose([prompt], [seed])[0] for seed, prompt in enumerate(prompts)]
    assert {one.text for one in chosen} == {"0", "1"}
    (logps,) = policy._scores([counted(prompts[0], HEAD)]).log_softmax(dim=1).tolist()
    assert chosen[0].logprob == pytest.approx(logps[chosen[0].token_ids[0]])
    sure = LinearActor(HEAD, Sampling(0.01)).fit([text("red", 0)] * 9, "f")
    assert sure.choose(prompts[:1], [3])[0].text == "0"


def test_the_planner_always_succeeds_and_chance_does_not():
    flags = taxi.settings("", curriculum_index=2, max_turns=20, per_device_train_batch_size=6, eval_reps=4)
    with open_playground(flags, measures=True) as ground:
        told, names = [], ("planner", "random")
        agents = [scripted(flags, ground, name) for name in names]
        planner, chance = (measure(flags, ground, agent, None, told.append)[0] for agent in agents)
        with pytest.raises(UsageError, match="oracle"):
            scripted(flags, ground, "oracle")([], [])
    assert (planner.episodes, planner.success, planner.failed) == (24, 1.0, 0)
    assert chance.success < 0.2
    assert sum(told) == 48


def test_an_episode_that_the_world_breaks_is_counted_apart(monkeypatch):
    def broken(*_, **__):
        raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad", "no such world"))

    monkeypatch.setattr(TaxiGame, "step", broken)
    flags = taxi.settings("", eval_reps=1)
    with open_playground(flags, measures=True) as ground:
        (level,) = measure(flags, ground, scripted(flags, ground, "planner"), None)
    assert (level.episodes, level.success, level.cost, level.steps) == (0, None, None, None)
    assert level.failed > 0
    assert "not measured" in level.line()
    assert "no such world" in level.line()


def test_a_score_is_the_weighted_sum_of_what_is_counted():
    policy = linear([text("the lamp is red", 0), text("the lamp is green", 1)] * 10)
    states = [counted(text(words), HEAD) for words in ("the lamp is red", "a lamp and a box", "left")]
    weights = policy._weights.detach().requires_grad_()
    sums = [
        (weights[torch.from_numpy(ids)] * torch.from_numpy(values)).sum()
        for state in states
        for ids, values in zip(state.features, state.values, strict=True)
    ]
    scores, expected = policy._scores(states), torch.stack(sums).reshape(3, 2)
    torch.testing.assert_close(scores, expected)
    policy._weights.grad = None
    for each in (scores, expected):
        each.log_softmax(dim=1)[:, 0].sum().backward()
    torch.testing.assert_close(policy._weights.grad, weights.grad)
    assert weights.grad.abs().max() > 0


def test_fitting_leaves_torch_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    linear([text("a", 0)])
    assert torch.equal(torch.rand(1), expected)


def test_repetitions_of_a_task_are_no_tasks():
    """Half of the tasks are always solved: how often they are played says nothing about others."""
    step = Step("", "", (), 0.0, 0.0, 1.0)
    lost, won = (step,), (step._replace(cost=-1.0),)
    played = [Played(f"t{n}", again, 0.0, won if n % 2 else lost) for again in range(50) for n in range(12)]
    level = summary("x", played)
    assert (level.success, level.episodes) == (0.5, 600)
    assert level.low < 0.3
    assert level.high > 0.7
    told = [Played("t", 0, 0.0, lost, None, said).succeeded for said in (None, True, False)]
    assert told == [False, True, False]  # won where the game says so
    assert not Played("t", 0, 0.0, lost, "broken", True).succeeded


@pytest.mark.parametrize(
    ("env", "name", "won"), [("twenty_questions", "asker", 1.0), ("lantern", "random", 0.0)]
)
def test_agents_of_other_worlds_play_as_they_do_elsewhere(env, name, won):
    flags = ReflectSettings(env=env, eval_reps=1, few_data=8)
    assert flags.max_turns == world_of(env).max_turns
    with open_playground(flags, measures=True) as ground:
        (level,) = measure(flags, ground, scripted(flags, ground, name), None)
    assert (level.episodes, level.success) == (8, won)
