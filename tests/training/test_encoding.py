"""Which tokens count: masks, end tokens, sampled ids and truncation, under our rules."""

import pytest

from sweet_rl.chat import tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow
from sweet_rl.training.encoding import TurnEncoder
from tests.tiny_models import tiny_tokenizer
from tests.training.pairs import turn

OPEN = "<|header|>assistant<|end_header|>\n\n"
ASK = "<|begin|>" + turn("user", "sum it")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def encode(tokenizer, *rows, max_len=512, **options):
    return TurnEncoder(tokenizer, max_len=max_len, **options).encode(list(rows))


def row(chosen, rejected, prompt="", **more):
    return PairRow(prompt, chosen, rejected, "pairs.jsonl", 7, **more)


def scored(tokenizer, side):
    return [tokenizer.decode(side.ids[start:end]) for start, end in side.scored]


def test_every_assistant_turn_counts_with_its_end_token(tokenizer):
    text = "hidden: 42. " + ASK + turn("assistant", "which?") + turn("user", "all") + turn("assistant", "yes")
    pairs, report = encode(tokenizer, row(text, ASK + turn("assistant", "no") + "\n\n"))
    assert scored(tokenizer, pairs[0].chosen) == ["which?<|end_turn|>", "yes<|end_turn|>"]
    assert scored(tokenizer, pairs[0].rejected) == ["no<|end_turn|>"]
    assert report.lines(512) == []


def test_a_prompt_is_never_scored(tokenizer):
    prompt = ASK + turn("assistant", "which?") + turn("user", "all") + OPEN
    pairs, _ = encode(tokenizer, row("yes", "no<|end_turn|>", prompt))
    assert scored(tokenizer, pairs[0].chosen) == ["yes<|end_turn|>"]
    assert scored(tokenizer, pairs[0].rejected) == ["no<|end_turn|>"]
    assert pairs[0].chosen.prompt_length == len(tokenizer(prompt, add_special_tokens=False)["input_ids"])


def test_a_prompt_without_headers_leaves_the_whole_response(tokenizer):
    pairs, _ = encode(tokenizer, row("yes", "no", "Question: what? Answer: "))
    assert scored(tokenizer, pairs[0].chosen) == ["yes<|end_turn|>"]


def test_sampled_ids_are_taken_as_they_are(tokenizer):
    """Here `no` was split into letters, and the chosen response was cut: no end token is invented."""
    chosen = tuple(tokenizer("yes it", add_special_tokens=False)["input_ids"])
    rejected = (*(tokenizer.convert_tokens_to_ids(letter) for letter in "no"), tokenizer.eos_token_id)
    ids = {"chosen_ids": chosen, "rejected_ids": rejected}
    mine = row("yes it", "no", ASK + OPEN, **ids, tokenizer=tokenizer_digest(tokenizer))
    foreign = row("yes it", "no", ASK + OPEN, **ids, tokenizer="another")
    (pair, other), report = encode(tokenizer, mine, foreign)
    assert pair.chosen.ids[pair.chosen.prompt_length :] == chosen
    assert pair.rejected.ids[pair.rejected.prompt_length :] == rejected
    assert other.chosen.ids[-1] == tokenizer.eos_token_id
    assert (report.from_ids, report.ids_refused) == (1, 1)
    assert report.lines(512) == [
        "1 pairs use the sampled token ids they carry",
        "1 pairs carry ids of another tokenizer: their text was tokenised",
    ]


def test_what_is_too_long_loses_its_oldest_turns_after_the_opening(tokenizer):
    opening = "hidden: 42. " + ASK
    turns = [turn("assistant", "one?"), turn("user", "two"), turn("assistant", "three")]
    whole = opening + "".join(turns)
    room = len(tokenizer(opening + turns[2], add_special_tokens=False)["input_ids"])
    (pair,), report = encode(tokenizer, row(whole, opening + turns[2]), max_len=room)
    assert tokenizer.decode(pair.chosen.ids) == opening + turns[2]
    assert report.shortened == 1
    pairs, report = encode(tokenizer, row(whole, opening + turns[2]), max_len=room - 1)
    assert pairs == []
    assert report.lines(room - 1) == [f"1 pairs left out, too long for --max_len {room - 1}: pairs.jsonl:7"]


def test_both_sides_of_a_prompt_lose_the_same_turns(tokenizer):
    prompt = ASK + turn("assistant", "one?") + turn("user", "two") + OPEN
    size = len(tokenizer(prompt + "no, never, not at all", add_special_tokens=False)["input_ids"])
    (pair,), _ = encode(tokenizer, row("yes", "no, never, not at all", prompt), max_len=size)
    kept = pair.chosen.ids[: pair.chosen.prompt_length]
    assert pair.rejected.ids[: pair.rejected.prompt_length] == kept
    assert tokenizer.decode(kept) == ASK + turn("user", "two") + OPEN
    assert pair.length <= size


def test_rows_without_a_turn_are_counted(tokenizer):
    pairs, report = encode(tokenizer, row("just text", "other text"))
    assert pairs == []
    assert report.lines(512) == ["1 pairs left out, no assistant turn in them: pairs.jsonl:7"]


def test_a_response_template_stands_in_for_a_chat_template():
    plain = tiny_tokenizer(chat_template=None)
    with pytest.raises(UsageError, match="--response_template"):
        encode(plain, row("a ANSWER: b", "a ANSWER: c"))
    pairs, _ = encode(plain, row("a ANSWER: b", "a ANSWER: c"), response_template=" ANSWER:")
    assert scored(plain, pairs[0].chosen) == [" b<|end_turn|>"]


def test_the_headers_beginning_means_the_whole_header(tokenizer):
    text = ASK + turn("assistant", "yes")
    pairs, _ = encode(tokenizer, row(text, text), response_template="<|header|>assistant<|end_header|>")
    assert scored(tokenizer, pairs[0].chosen) == ["yes<|end_turn|>"]
