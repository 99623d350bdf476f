"""Scores by hand, with a tokenizer of one id for each character; scores of a server; the swap test; best of n."""

import asyncio
import math
from dataclasses import replace

import pytest

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.ranking import (
    BestOfN,
    Encoding,
    Moved,
    ServerScorer,
    candidate_tokens,
    context_of,
    encoding_by,
    logprobs_of,
    moved,
    moved_scores,
    reduce,
    with_others_solutions,
)
from sweet_rl.statistics import other_places
from sweet_rl.types import Completion, Failure, FinishReason, Generation, Message, Observation

END, BEGIN = 1, 2


def encoding(digest="ours"):
    def ids(text):
        return [ord(letter) for letter in text]

    return Encoding(
        ids, lambda text: [BEGIN, *ids(text)], "#", 1, (END,), digest, lambda ids: "".join(map(chr, ids))
    )


def row(texts, **fields):
    base = {"input": "in", "ground_truth": "g", "additional_outputs": texts}
    (read,) = candidates_from_rows([(1, base | fields)])
    return read


def ids(text):
    return tuple(map(ord, text))


def test_the_context_is_one_string_without_added_tokens():
    read = row(["a"])
    whole = context_of(read, with_ground_truth=True)
    assert whole == "In light that the final answer is: g.in"
    assert context_of(read, with_ground_truth=False) == "in"
    (one,) = candidate_tokens(read, whole, encoding())
    assert one.context == ids(whole)


@pytest.mark.parametrize(
    ("texts", "fields", "tokenizer", "tokens"),
    [
        (["ab", "c"], {"additional_token_ids": [[7, END], None], "tokenizer": "ours"}, "ours", [(7, END), (*ids("c"), END)]),
        (["ab", "c"], {"additional_token_ids": [[7, END], None], "tokenizer": "ours"}, "other", [(*ids("ab"), END), (*ids("c"), END)]),
        (["ab"], {"additional_token_ids": [[7, END]]}, "ours", [(*ids("ab"), END)]),  # whose ids is not known
        (["ab", "", ""], {"additional_finish_reasons": ["length", "stop", "length"]}, "ours", [ids("ab"), (END,), ()]),
    ],
)  # fmt: skip
def test_sampled_ids_stay_for_the_same_tokenizer_and_nothing_that_was_cut_gets_an_end(
    texts, fields, tokenizer, tokens
):
    found = candidate_tokens(row(texts, **fields), "x", encoding(tokenizer))
    assert [one.tokens for one in found] == tokens


class Ids:
    """The log-probability of token t after a context of c tokens is -(t + c / 1000)."""

    async def score(self, contexts, candidates):
        assert all(context and all(row) for context, row in zip(contexts, candidates, strict=True))
        self.contexts = contexts
        return [
            [[-(token + len(context) / 1000) for token in one] for one in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]


def test_a_context_is_sent_once_and_what_cannot_be_scored_has_none():
    read = row(["a", "b", "", "long" * 9], additional_finish_reasons=["length"] * 4)
    scorer = Ids()
    rows = [candidate_tokens(read, "x", encoding()), candidate_tokens(row([]), "y", encoding())]
    found = asyncio.run(logprobs_of(scorer, rows, limit=30))
    assert found == [[[-97.001], [-98.001], None, None], []]
    assert scorer.contexts == [(ord("x"),)]


def test_means_and_sums():
    assert reduce([-1.0, -3.0], use_sum=False) == -2.0
    assert reduce([-1.0, -3.0], use_sum=True) == -4.0
    assert reduce([], use_sum=False) is reduce(None, use_sum=True) is None
    assert math.isnan(reduce([math.nan], use_sum=False))


@pytest.mark.parametrize("limit", [None, 2])
def test_nothing_to_score(limit):
    scorer, empty = Ids(), row([""], additional_finish_reasons=["length"])
    assert asyncio.run(logprobs_of(scorer, [candidate_tokens(empty, "x", encoding())], limit)) == [[None]]
    assert not hasattr(scorer, "contexts")


def test_prompts_of_servers_and_scripts_are_read_by_the_models_own_template():
    """As `train_dpo` writes them: a critic is asked about what it was trained on."""
    from sweet_rl.chat import PlainChat, TokenizerChat, as_json
    from tests.tiny_models import tiny_tokenizer

    messages = [Message("system", "Be terse."), Message("user", "what?")]
    tokenizer = tiny_tokenizer()
    wanted = encoding_by(tokenizer).encode("hidden: 4." + TokenizerChat(tokenizer).render(messages))
    for prompt in (PlainChat().render(messages), as_json(messages)):
        assert encoding_by(tokenizer).encode(f"hidden: 4.{prompt}") == wanted


class Client:
    """A server under which token t has the log-probability -t."""

    def __init__(self, models=({"id": "m", "owned_by": "vllm", "max_model_len": 20},), fails=False):
        self._models, self._fails = models, fails
        self.bodies = []

    async def models(self):
        return list(self._models)

    async def complete(self, body):
        self.bodies.append(body)
        await asyncio.sleep(0)
        if self._fails:
            raise RequestFailed(Failure("server_error", "broke", 500))
        ids = body["prompt"]
        entries = [{str(i): {"logprob": -float(i), "rank": 1}, "0": {"logprob": -9.0}} for i in ids[1:]]
        return [{"text": "x", "prompt_logprobs": [None, *entries]}]

    async def close(self):
        pass


def score(client, contexts, candidates):
    async def main():
        scorer = ServerScorer(client, "m")
        await scorer.start()
        return scorer.context_length, await scorer.score(contexts, candidates)

    return asyncio.run(main())


def test_each_pair_is_sent_once_as_ids_and_untempered():
    client = Client()
    limit, scores = score(client, [[1, 2], [3]], [[[4, 5], [6], [4, 5]], [[6]]])
    assert scores == [[[-4.0, -5.0], [-6.0], [-4.0, -5.0]], [[-6.0]]]
    assert limit == 19
    assert sorted(body["prompt"] for body in client.bodies) == [[1, 2, 4, 5], [1, 2, 6], [3, 6]]
    for body in client.bodies:
        assert (body["prompt_logprobs"], body["max_tokens"], body["temperature"]) == (0, 1, 1.0)


class Silent(Client):
    async def complete(self, body):
        return [{"text": "x", "prompt_logprobs": None}]


@pytest.mark.parametrize(
    ("client", "error", "words"),
    [
        (Client(()), UsageError, "does not serve 'm', but nothing"),
        (Client(({"id": "m", "owned_by": "someone"},)), UsageError, "only vLLM's server"),
        (Client(fails=True), ServiceError, r"server_error: broke.*--to_continue"),
        (Silent(), ServiceError, "lacks the log-probabilities"),
    ],
)
def test_servers_that_cannot_rank_or_fail(client, error, words):
    with pytest.raises(error, match=words):
        score(client, [[1]], [[[2], [3]]])


def turn(task, solution, index=0):
    return Candidates((task, 0, index), 1, "P", solution, (), None, None, None, {})


def test_everyone_is_given_the_place_of_another_from_half_way_round_on():
    assert other_places(["a", "b", "c", "d"]) == [2, 3, 0, 1]
    assert other_places(["a", "a", "b", "b", "b"]) == [2, 3, 0, 0, 1]
    assert other_places(["a", "b", "b"]) == [1, 0, 0]
    assert other_places(["a", "a"]) == [0, 1]  # there is no other
    assert other_places([]) == []


def test_all_turns_of_a_task_get_the_same_solution_of_another_task():
    rows = [turn("x", "1"), turn("y", "1"), turn("x", "1", 1), turn("z", "2")]
    swapped = with_others_solutions(rows)
    assert [row.ground_truth for row in swapped] == ["2", "2", "2", "1"]
    assert [replace(row, ground_truth="") for row in swapped] == [
        replace(row, ground_truth="") for row in rows
    ]
    with pytest.raises(UsageError, match="different hidden solutions"):
        with_others_solutions(rows[:3])


def test_a_solution_without_a_line_of_ones_own_is_given_where_there_is_one():
    def solution(*extras):
        return "\n".join(["def total(p):", *extras, "return p"])

    told = [solution("a", "b"), solution("c", "d"), solution("a", "c"), solution("e", "b")]
    swapped = with_others_solutions([turn(str(place), one) for place, one in enumerate(told)])
    # half way round from the first is the third, which has "a", too; the fourth has "b"
    assert [told.index(row.ground_truth) for row in swapped] == [1, 3, 3, 1]
    alike = [turn("x", "a\nb"), turn("y", "a\nc"), turn("z", "b\nc")]
    assert [row.ground_truth for row in with_others_solutions(alike)] == ["a\nc", "b\nc", "a\nb"]
    parts = [
        turn(str(place), one) for place, one in enumerate(["a", "a\nb", "a"])
    ]  # none is given its own text
    assert [row.ground_truth for row in with_others_solutions(parts)] == ["a\nb", "a", "a\nb"]


def test_how_far_values_move():
    # Around their means: 1, -1 and 2, 0, -2; swapped 1, -1 and -2, 0, 2.
    # Products 1 + 1 - 4 + 0 - 4 = -6; squares 10 and 10.
    found = moved([([3.0, 1.0], [7.0, 5.0]), ([4.0, 2.0, 0.0], [0.0, 2.0, 4.0]), ([1.0], [9.0])])
    assert found == Moved(2, pytest.approx(-0.6), 0.5)
    # The same for all candidates is no movement: nobody becomes better than another.
    assert moved([([1.0, 2.0], [11.0, 12.0])]) == Moved(1, pytest.approx(1.0), 0.0)
    assert moved([([1.0, 1.0], [2.0, 3.0])]) == Moved(1, None, 1.0)
    assert moved([([1.0], [2.0])]) is None
    rows = [  # candidates without a score are not compared
        {"judge_result": [2.0, None, 0.0, 5.0], "judge_result_swapped": [1.0, 9.0, 0.0, None]},
        {"judge_result": [1.0], "judge_result_swapped": [0.0]},
    ]
    assert moved_scores(rows) == Moved(1, pytest.approx(1.0), 0.0)
    assert moved_scores(rows[1:]) is None


def completion(text, logprob, *, cut=False):
    tokens = ids(text) + (() if cut else (END,))
    reason = FinishReason.LENGTH if cut else FinishReason.STOP
    return Completion(text, tokens, (logprob,) * len(tokens), reason)


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
            [[self.liked["".join(map(chr, tokens)).rstrip(chr(END))]] * len(tokens) for tokens in row]
            for row in candidates
        ]


def observation(turn=0, seed=3):
    talk = (Message("assistant", "a"), Message("user", "no")) * turn
    return Observation("t", (Message("user", "hi"), *talk), seed=seed)


def taken(agent, critic, n, *seen, **how):
    """The turns that are taken."""

    async def play():
        policy = BestOfN(agent, critic, encoding(), tokenizer="ours", n=n, seed=7, **how)
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


def test_of_equals_the_first_and_one_turn_is_the_agents_own():
    assert texts(Agent(completion("b", -1.0)), Critic(a=-2.0, b=-2.0), 2) == ["a"]
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


def test_a_head_gives_a_value_and_another_critic_needs_the_samplers_log_probabilities():
    agent, critic = Agent(Completion("b", (98, END), None, FinishReason.STOP)), Critic(a=0.1, b=0.2)
    with pytest.raises(UsageError, match="agent gives no log-probabilities"):
        taken(agent, critic, 2)
    critic.has_value_head = True
    assert texts(agent, critic, 2) == ["b"]
