"""Playing on from a turn: the world and what was said come back, the policy draws anew."""

import asyncio
from dataclasses import replace
from statistics import fmean

import pytest

import sweet_rl
from sweet_rl import Completion, Generation
from sweet_rl.errors import DataError
from sweet_rl.learning.continuations import Remembering, check_replay, continuations, states_of
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.types import UserReply

pytestmark = pytest.mark.usefixtures("worlds")


def played_on(world, states, policy, n, user=None, **settings):
    async def play():
        who = user or (world.user.make() if world.user.by == "human" else None)
        async with world.open(world.options(), who) as make_env:
            return await continuations(states, policy, n, make_env=make_env, **settings)

    return asyncio.run(play())


def said(trajectory):
    return [message.content for message in trajectory.dialogue_history]


def agent_of(world, name):
    from sweet_rl.worlds.options import AgentRequest

    return asyncio.run(world.make_agent(AgentRequest(name=name, tasks=())))


def test_the_end_of_an_episode_is_the_episode_again(worlds):
    for world in worlds.values():
        (episode,) = sweet_rl.simulate(world, num_tasks=1, seed=3)
        *_, end = states_of(episode)
        ((again,),) = played_on(world, [end], TeacherPolicy(lambda seen: pytest.fail("nobody is asked")), 1)
        assert (said(again), again.reward) == (said(episode), episode.reward)
        assert [one.reward for one in again.dialogue_history if one.role == "assistant"] == [
            one.reward for one in episode.dialogue_history if one.role == "assistant"
        ]


def test_turns_are_kept_and_the_rest_is_drawn_anew(worlds):
    world = worlds["number"]
    (episode,) = sweet_rl.simulate(world, num_tasks=1, agent="wild", seed=1)
    states = states_of(episode)
    wild = agent_of(world, "wild")
    for turns, found in enumerate(played_on(world, states, wild, 8)):
        assert all(said(one)[: 2 * turns + 1] == said(episode)[: 2 * turns + 1] for one in found)
        check_replay(episode, found, turns)
        rest = {tuple(said(one)[2 * turns + 1 :]) for one in found}
        assert len(rest) > 1 or turns == len(states) - 1
    assert [[said(one) for one in some] for some in played_on(world, states[:2], wild, 3)] == [
        [said(one) for one in some[:3]] for some in played_on(world, states[:2], wild, 8)
    ]
    assert played_on(world, states[:1], wild, 3, seed=1) != played_on(world, states[:1], wild, 3)


def test_a_turn_that_was_not_taken_can_be_tried(worlds):
    world = worlds["number"]
    number = next(world.rows("numbers", "test", limit=1, seed=0))["ground_truth"]
    (episode,) = sweet_rl.simulate(world, num_tasks=1, agent="wild", seed=1)
    start, *_ = states_of(episode)
    right = replace(start, said=(Generation("", Completion(number)),))
    wrong = replace(start, said=(Generation("", Completion("nothing")),))
    good, bad = played_on(world, [right, wrong], agent_of(world, "careful"), 16)
    assert {one.reward for one in good} == {1.0}
    assert fmean(one.reward for one in bad) < 1


def test_the_human_says_again_what_it_said_and_answers_what_is_new(worlds):
    class Fickle:
        name = "fickle"
        asked = 0

        async def reply(self, context):
            Fickle.asked += 1
            return UserReply(f"The day: Friday, for the {Fickle.asked}. time.")

        async def close(self):
            pass

    world, fickle = worlds["notice"], Fickle()
    (episode,) = sweet_rl.simulate(world, num_tasks=1, agent="hurried", human=fickle)
    before = Fickle.asked
    ((again,),) = played_on(
        world, states_of(episode)[-1:], agent_of(world, "hurried"), 1, Remembering(fickle, [episode])
    )
    assert (said(again), Fickle.asked) == (said(episode), before)
    ((other,),) = played_on(
        world, states_of(episode)[:1], agent_of(world, "inventive"), 1, Remembering(fickle, [episode])
    )
    assert Fickle.asked > before and said(other) != said(episode)
    ((forgets,),) = played_on(world, states_of(episode)[-1:], agent_of(world, "hurried"), 1, fickle)
    with pytest.raises(
        DataError,
        match=r"message 2 was 'The day: Friday, for the 1\. time\.', and played again .* must draw only from the seed",
    ):
        check_replay(episode, [forgets], 2)


def test_an_episode_without_its_seed_cannot_be_played_on(worlds):
    (episode,) = sweet_rl.simulate(worlds["number"], num_tasks=1)
    with pytest.raises(DataError, match="does not record its seed"):
        states_of(replace(episode, provenance={}))
