"""The agent that takes the turn a critic likes best, by hand; with real models in tests/commands."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.preferences.best_of_n import BestOfN
from sweet_rl.preferences.ranking import Encoding
from sweet_rl.types import Completion, FinishReason, Generation, Message, Observation

END = 0


def completion(text, logprob, *, cut=False):
    ids = tuple(map(ord, text)) + (() if cut else (END,))
    reason = FinishReason.LENGTH if cut else FinishReason.STOP
    return Completion(text, ids, (logprob,) * len(ids), reason)


class Agent:
    """Says "a" first, and then what it is given."""

    name = "agent"

    def __init__(self, *others):
        self.others, self.seeds, self.closed = others, [], False

    async def act(self, observation):
        return Generation(f"P{observation.turn}:", completion("a", -1.0))

    async def sample(self, prompts, n, *, seeds=None):
        self.seeds += [(prompts, n, seeds)]
        return [list(self.others[:n])]

    async def close(self):
        self.closed = True


class Critic:
    """Every token of a turn has the log-probability that its text is given."""

    has_value_head = False
    context_length = None

    def __init__(self, **liked):
        self.liked, self.contexts = liked, []

    def score(self, contexts, candidates):
        self.contexts += ["".join(map(chr, context)) for context in contexts]
        return [
            [[self.liked["".join(map(chr, filter(None, tokens)))]] * len(tokens) for tokens in row]
            for row in candidates
        ]


def encode(text):
    return list(map(ord, text))


ENCODING = Encoding(encode, encode, "", 0, (END,), "digest", str)


def observation(turn=0, seed=3):
    talk = (Message("assistant", "a"), Message("user", "no")) * turn
    return Observation("t", (Message("user", "hi"), *talk), seed=seed)


def taken(agent, critic, n, *seen, **how):
    """The turns that are taken."""

    async def play():
        policy = BestOfN(agent, critic, ENCODING, tokenizer="digest", n=n, seed=7, **how)
        try:
            return [await policy.act(one) for one in seen or [observation()]]
        finally:
            await policy.close()

    return asyncio.run(play())


def texts(*args, **how):
    return [turn.completion.text for turn in taken(*args, **how)]


def test_the_largest_advantage_is_taken():
    agent = Agent(completion("b", -3.0), completion("c", -0.5))
    # advantages: a -2 - -1 = -1; b -2.5 - -3 = 0.5; c -0.6 - -0.5 = -0.1
    critic = Critic(a=-2.0, b=-2.5, c=-0.6)
    (turn,) = taken(agent, critic, 3)
    assert (turn.input, turn.completion.text) == ("P0:", "b")
    assert critic.contexts == ["P0:"]
    assert agent.closed


def test_of_equals_the_first():
    assert texts(Agent(completion("b", -1.0)), Critic(a=-2.0, b=-2.0), 2) == ["a"]


def test_one_turn_is_the_agents_own_and_asks_no_critic():
    agent, critic = Agent(), Critic()
    assert texts(agent, critic, 1) == ["a"]
    assert agent.seeds == critic.contexts == []


def test_only_a_critic_with_solutions_sees_them():
    critic = Critic(a=-1.0, b=-1.0)
    taken(Agent(completion("b", -1.0)), critic, 2, solutions={"t": "SECRET"})
    assert "SECRET" in critic.contexts[0]
    assert critic.contexts[0].endswith("P0:")


def test_turns_and_episodes_have_samples_of_their_own():
    agent = Agent(completion("b", -1.0))
    seen = [observation(), observation(turn=1), observation(seed=4), observation()]
    taken(agent, Critic(a=-1.0, b=-1.0), 2, *seen)
    seeds = [seeds[0] for _, _, seeds in agent.seeds]
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3]


def test_what_cannot_be_scored_is_not_taken():
    agent = Agent(Completion("", (), (), FinishReason.STOP), completion("bbb", -1.0, cut=True))
    critic = Critic(a=-9.0)
    critic.context_length = 5  # two places are left behind P0:
    assert texts(agent, critic, 3) == ["a"]


def test_a_head_gives_a_value_without_reference():
    agent = Agent(Completion("b", (98, END), None, FinishReason.STOP))
    critic = Critic(a=0.1, b=0.2)
    critic.has_value_head = True
    assert texts(agent, critic, 2) == ["b"]


def test_a_sampler_without_log_probabilities_is_named():
    agent = Agent(Completion("b", (98, END), None, FinishReason.STOP))
    with pytest.raises(UsageError, match="agent gives no log-probabilities"):
        taken(agent, Critic(a=-1.0, b=-1.0), 2)
