"""What is scored in the fixed mode, by hand, with a tokenizer of one id for each character."""

import asyncio
import math

import pytest

from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.preferences.ranking import (
    Encoding,
    advantage,
    candidate_tokens,
    context_of,
    logprobs_of,
    reduce,
)

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


def tokens(read, digest="ours"):
    return [one.tokens for one in candidate_tokens(read, "x", encoding(digest))]


def test_the_context_is_one_string_without_added_tokens():
    read = row(["a"])
    whole = context_of(read, with_ground_truth=True)
    assert whole == "In light that the final answer is: g.in"
    assert context_of(read, with_ground_truth=False) == "in"
    (one,) = candidate_tokens(read, whole, encoding())
    assert one.context == tuple(ord(letter) for letter in whole)


def test_sampled_ids_are_kept_for_the_same_tokenizer_only():
    read = row(["ab", "c"], additional_token_ids=[[7, END], None], tokenizer="ours")
    assert tokens(read) == [(7, END), (ord("c"), END)]
    assert tokens(read, "other") == [(ord("a"), ord("b"), END), (ord("c"), END)]
    unknown = row(["ab"], additional_token_ids=[[7, END]])
    assert tokens(unknown) == [(ord("a"), ord("b"), END)]


def test_no_end_token_after_a_cut_and_only_one_for_nothing():
    read = row(["ab", "", ""], additional_finish_reasons=["length", "stop", "length"])
    assert tokens(read) == [(ord("a"), ord("b")), (END,), ()]


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


def test_means_sums_and_advantages():
    assert reduce([-1.0, -3.0], use_sum=False) == -2.0
    assert reduce([-1.0, -3.0], use_sum=True) == -4.0
    assert reduce([], use_sum=False) is reduce(None, use_sum=True) is None
    assert advantage(-1.0, -3.5) == 2.5
    assert advantage(None, -1.0) is advantage(-1.0, None) is None
    assert math.isnan(reduce([math.nan], use_sum=False))


@pytest.mark.parametrize("limit", [None, 2])
def test_nothing_to_score(limit):
    scorer = Ids()
    empty = row([""], additional_finish_reasons=["length"])
    assert asyncio.run(logprobs_of(scorer, [candidate_tokens(empty, "x", encoding())], limit)) == [[None]]
    assert not hasattr(scorer, "contexts")


def test_prompts_of_servers_and_scripts_are_read_by_the_models_own_template():
    """As `train_dpo` writes them: a critic is asked about what it was trained on."""
    from sweet_rl.chat import PlainChat, TokenizerChat, as_json
    from sweet_rl.preferences.ranking import encoding_by
    from sweet_rl.types import Message
    from tests.tiny_models import tiny_tokenizer

    messages = [Message("system", "Be terse."), Message("user", "what?")]
    tokenizer = tiny_tokenizer()
    wanted = encoding_by(tokenizer).encode("hidden: 4." + TokenizerChat(tokenizer).render(messages))
    for prompt in (PlainChat().render(messages), as_json(messages)):
        assert encoding_by(tokenizer).encode(f"hidden: 4.{prompt}") == wanted
