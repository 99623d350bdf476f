"""Which tokens count: masks, end tokens, sampled ids and truncation, under our rules."""

import json

import pytest

from sweet_rl.chat import PlainChat, TokenizerChat, as_json, tokenizer_digest
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.batches import Collator, Reader
from sweet_rl.training.data import DataRow, Said, read_pair, read_texts
from sweet_rl.training.encoding import TurnEncoder, scored_texts
from sweet_rl.training.settings import DataSettings
from sweet_rl.types import Message
from tests.chat.test_turns import THINKING
from tests.tiny_models import TURN_END, tiny_tokenizer
from tests.training.pairs import turn, write_pairs

OPEN = "<|header|>assistant<|end_header|>\n\n"
ASK = "<|begin|>" + turn("user", "sum it")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def encode(tokenizer, *rows, max_len=512, **options):
    return TurnEncoder(tokenizer, DataSettings(dataset="", max_len=max_len, **options)).encode(list(rows))


def row(chosen, rejected, prompt="", chosen_ids=None, rejected_ids=None, **more):
    sides = Said(chosen, ids=chosen_ids), Said(rejected, ids=rejected_ids)
    return DataRow(Said(prompt), tuple(sides), "pairs.jsonl", 7, **more)


def scored(tokenizer, side):
    return scored_texts(side.branches, tokenizer)


def read(tokenizer, row, **settings):
    """What is learned of both sides of a row of a file."""
    ((pair,), _) = encode(tokenizer, read_pair(row, "pairs.jsonl", 7, DataSettings(dataset="", **settings)))
    return scored(tokenizer, pair.sides[0]) + scored(tokenizer, pair.sides[1]), pair


def test_every_assistant_turn_counts_with_its_end_token(tokenizer):
    text = "hidden: 42. " + ASK + turn("assistant", "which?") + turn("user", "all") + turn("assistant", "yes")
    pairs, report = encode(tokenizer, row(text, ASK + turn("assistant", "no") + "\n\n"))
    assert scored(tokenizer, pairs[0].sides[0]) == ["which?<|end_turn|>", "yes<|end_turn|>"]
    assert scored(tokenizer, pairs[0].sides[1]) == ["no<|end_turn|>"]
    assert report.lines(512) == []
    (branch,) = pairs[0].sides[0].branches
    assert list(branch.ids) == tokenizer(text, add_special_tokens=False)["input_ids"]


USER, YES = {"role": "user", "content": "sum it"}, {"role": "assistant", "content": "yes"}
SYSTEM = Message("system", "Be terse.")
TERSE = f"<|begin|>{turn('system', 'Be terse.')}{turn('user', 'sum it')}{OPEN}"
SERVED = [chat([SYSTEM, Message("user", "sum it")]) for chat in (PlainChat().render, as_json)]


@pytest.mark.parametrize(
    ("prompt", "chosen", "asked"),
    [
        ("sum it", "yes", ASK + OPEN),
        (ASK + OPEN, "yes", ASK + OPEN),
        (ASK, "yes", ASK + OPEN),  # the open header is missing
        *((f"hidden. {prompt}", "yes", f"hidden. {TERSE}") for prompt in SERVED),  # of servers and scripts
        ("sum it", [USER, YES], ASK + OPEN),  # the form of ultrafeedback_binarized
        ([USER], [USER, YES], ASK + OPEN),
        ([USER], [YES], ASK + OPEN),
        (None, [USER, YES], ASK + OPEN),
        (ASK, f"{OPEN}yes{TURN_END}\n", ASK + OPEN),  # the header stands in the side
        (ASK + OPEN, f"{OPEN}yes", ASK + OPEN),
        (ASK, f"{ASK}{OPEN}yes{TURN_END}", ASK + OPEN),  # the side is the whole dialogue
        ((ASK + OPEN).rstrip("\n"), "yes", ASK + OPEN),  # half a header
        (f"{ASK[: -len(TURN_END)]}", "yes", ASK + OPEN),  # the user's message is not closed
        ([USER | {"content": "sum it "}], [USER, YES], ASK.replace("sum it", "sum it ") + OPEN),
    ],
)
def test_ways_in_which_a_prompt_and_its_answer_are_written(prompt, chosen, asked, tokenizer):
    rejected = json.loads(json.dumps(chosen).replace("yes", "no"))
    found, pair = read(tokenizer, {"prompt": prompt, "chosen": chosen, "rejected": rejected})
    assert found == [f"yes{TURN_END}", f"no{TURN_END}"]
    assert tokenizer.decode(pair.branches[0].ids) == f"{asked}yes{TURN_END}"


def test_a_system_text_beside_and_a_template_around_the_prompt(tokenizer):
    _, pair = read(tokenizer, {"prompt": "sum it", "chosen": "yes", "rejected": "no", "system": "Be terse."})
    assert tokenizer.decode(pair.branches[0].ids) == f"{TERSE}yes{TURN_END}"
    ((pair,), _) = encode(tokenizer, row("yes", "no", "Q: what? A: "), input_template="{}")
    assert tokenizer.decode(pair.branches[0].ids) == f"Q: what? A: yes{TURN_END}"


def test_thoughts_of_messages_are_learned_or_only_read():
    tokenizer = tiny_tokenizer(THINKING)
    said = [{"role": "assistant", "content": "four", "reasoning_content": "hm"}]
    rows = {"prompt": "2+2?", "chosen": said, "rejected": [{"role": "assistant", "content": "five"}]}
    pair = read_pair(rows, "pairs.jsonl", 1, DataSettings(dataset=""))
    for learn, wanted in ((True, "hm\n</think>\n\nfour<|end_turn|>"), (False, "four<|end_turn|>")):
        ((found,), _) = encode(tokenizer, pair, learn_thoughts=learn)
        assert scored(tokenizer, found.sides[0]) == [wanted]
        whole = tokenizer.decode(found.branches[0].ids)
        assert whole.endswith("<think>\nhm\n</think>\n\nfour<|end_turn|>")  # read in any case


def test_sampled_ids_are_taken_as_they_are(tokenizer):
    """Here `no` was split into letters, and the chosen response was cut: no end token is invented."""
    chosen = tuple(tokenizer("yes it", add_special_tokens=False)["input_ids"])
    rejected = (*(tokenizer.convert_tokens_to_ids(letter) for letter in "no"), tokenizer.eos_token_id)
    ids = {"chosen_ids": chosen, "rejected_ids": rejected}
    mine = row("yes it", "no", ASK + OPEN, **ids, tokenizer=tokenizer_digest(tokenizer))
    foreign = row("yes it", "no", ASK + OPEN, **ids, tokenizer="another")
    (pair, other), report = encode(tokenizer, mine, foreign)
    assert [branch.ids[branch.prompt_length :] for branch in pair.branches] == [chosen, rejected]
    assert other.branches[0].ids[-1] == tokenizer.eos_token_id
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
    assert tokenizer.decode(pair.branches[0].ids) == opening + turns[2]
    assert scored(tokenizer, pair.sides[0]) == [f"three{TURN_END}"]
    assert report.lines(room) == [f"1 pairs lost their oldest turns (--max_len {room})"]
    pairs, report = encode(tokenizer, row(whole, opening + turns[2]), max_len=room - 1)
    assert pairs == []
    assert report.lines(room - 1) == [f"1 pairs left out, too long for --max_len {room - 1}: pairs.jsonl:7"]


def test_both_sides_of_a_prompt_lose_the_same_turns(tokenizer):
    prompt = ASK + turn("assistant", "one?") + turn("user", "two") + OPEN
    size = len(tokenizer(prompt + "no, never, not at all", add_special_tokens=False)["input_ids"])
    (pair,), _ = encode(tokenizer, row("yes", "no, never, not at all", prompt), max_len=size)
    kept, other = (branch.ids[: branch.prompt_length] for branch in pair.branches)
    assert other == kept
    assert tokenizer.decode(kept) == ASK + turn("user", "two") + OPEN
    assert scored(tokenizer, pair.sides[0]) == [f"yes{TURN_END}"]
    assert pair.length <= size


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"chosen": "just text", "rejected": "other"}, "no turn of the assistant stands in it"),
        ({"prompt": "[INST] a [/INST]", "chosen": "b", "rejected": "c"}, r"has the mark '\[INST\]'"),
        ({"prompt": ASK + turn("assistant", "which?"), "chosen": "b", "rejected": "c"}, "not where the assistant is about to speak"),
        (
            {"prompt": "a", "chosen": [{"role": "assistant", "content": f"b{OPEN}"}], "rejected": "c"},
            "the assistant's message has the mark '<|header|>'",
        ),
        ({"prompt": [{"role": "user", "content": f"a{TURN_END}"}], "chosen": "b", "rejected": "c"}, "the user's message has the mark"),
    ],
)  # fmt: skip
def test_a_row_that_would_be_read_otherwise_than_it_looks_is_refused(rows, message, tokenizer):
    with pytest.raises(DataError, match=message.replace("|", r"\|")) as raised:
        read(tokenizer, rows)
    assert "pairs.jsonl, line 7: cannot be learned from" in str(raised.value)


def test_a_response_template_stands_in_for_a_chat_template(tokenizer):
    plain = tiny_tokenizer(chat_template=None)
    with pytest.raises(DataError, match="--response_template"):
        encode(plain, row("a ANSWER: b", "a ANSWER: c"))
    pairs, _ = encode(plain, row("a ANSWER: b", "a ANSWER: c"), response_template=" ANSWER:")
    assert scored(plain, pairs[0].sides[0]) == [" b<|end_turn|>"]
    text, header = (
        ASK + turn("assistant", "yes"),
        "<|header|>assistant<|end_header|>",
    )  # without its blank line
    pairs, _ = encode(tokenizer, row(text, ASK + turn("assistant", "no")), response_template=header)
    assert scored(tokenizer, pairs[0].sides[0]) == [f"yes{TURN_END}"]
    with pytest.raises(UsageError, match="has no tokens"):
        encode(plain, response_template="")


def imitated(tokenizer, path, *rows):
    texts, _ = read_texts(DataSettings(dataset=str(write_pairs(path / "texts.jsonl", rows))))
    encoded, report = TurnEncoder(tokenizer, DataSettings(dataset="", max_len=9999)).encode(texts)
    return [scored_texts(text.branches, tokenizer) for text in encoded], encoded, report


def test_every_turn_of_the_agent_is_imitated_and_nothing_else(tokenizer):
    text = f"<|begin|>{turn('user', 'What?')}{turn('assistant', 'A list.')}{turn('user', 'Yes')}{OPEN}It is zero."
    ((whole,), _) = encode(tokenizer, DataRow(Said(), (Said(text),), "f", 1), max_len=99)
    batch = Collator("sum", Reader(0))([(whole, 1.0)])
    imitated = batch["targets_K"].tolist()
    assert batch["predictors_K"].tolist() == sorted(batch["predictors_K"].tolist())
    assert tokenizer.decode(imitated) == f"A list.{TURN_END}It is zero.{TURN_END}"
    assert whole.weight == len(imitated)


ASKED = [Message("system", "Be terse."), Message("user", "What?")]


def played(*inputs, **last):
    """A dialogue of as many agent turns as there are inputs."""
    history = [{"role": "user", "content": "What?"}]
    for number, given in enumerate(inputs):
        history.append(
            {"role": "assistant", "content": f"answer {number}", "input": given, "output": f"answer {number}"}
        )
        history.append({"role": "user", "content": "Go on."})
    history[-2] |= last
    task = {"problem_description": "What?", "ground_truth": "def f(): return 1", "task_id": 7}
    return {"task": task, "dialogue_history": history[:-1], "answer": None, "reward": 1.0}


@pytest.mark.parametrize("by", ["plain", "server", "another template", "nothing"])
def test_dialogues_of_anyone_are_written_by_the_template_of_the_model(by, tokenizer, tmp_path):
    """A scripted agent, a server, a model with another template: system text and messages are the same."""
    other = TokenizerChat(
        tiny_tokenizer(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        )
    )
    given = {
        "plain": PlainChat().render(ASKED),
        "server": as_json(ASKED),
        "another template": other.render(ASKED) + "<|im_start|>assistant\n",
        "nothing": "What?",
    }[by]
    found, (text,), report = imitated(tokenizer, tmp_path, played(given, given + "..."))
    assert found == [[f"answer 0{TURN_END}", f"answer 1{TURN_END}"]]
    messages = [*ASKED[by == "nothing" :], Message("assistant", "answer 0"), Message("user", "Go on.")]
    (branch,) = text.branches
    assert tokenizer.decode(branch.ids) == TokenizerChat(tokenizer).render(messages) + f"answer 1{TURN_END}"
    assert report.lines(9)[:1] == [
        "1 texts were played by other prompts, and are written by this model's chat template"
    ]


def test_a_system_text_that_cannot_be_told_is_asked_for(tokenizer, tmp_path):
    given = "<|im_start|>tools\ncalculator<|im_end|><|im_start|>system\nBe terse.<|im_end|>What?"
    with pytest.raises(DataError, match=r"texts\.jsonl, line 1: .*--tokenizer of the model that is trained"):
        imitated(tokenizer, tmp_path, played(given))


def test_sampled_tokens_of_a_dialogue_stay(tokenizer, tmp_path):
    """Also where the history is not what was said: each turn has its own prompt then."""
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "answer"]
    tail = tokenizer(" 0", add_special_tokens=False)["input_ids"]
    given = TokenizerChat(tokenizer).render(ASKED)
    rows = played(given, token_ids=[*letters, *tail, tokenizer.eos_token_id], finish_reason="stop")
    found, (text,), report = imitated(tokenizer, tmp_path, rows)
    assert found == [[f"answer 0{TURN_END}"]]
    assert text.branches[0].ids[-9:-3] == tuple(letters)
    assert report.lines(9) == ["1 texts use the sampled token ids they carry"]
    rewritten = played(given, "shortened: " + given)
    assert len(imitated(tokenizer, tmp_path, rewritten)[1][0].branches) == 2


def test_a_turn_that_the_token_limit_cut_gets_no_end_token_and_an_empty_one_is_its_end(tokenizer, tmp_path):
    given = TokenizerChat(tokenizer).render(ASKED)
    cut = imitated(tokenizer, tmp_path, played(given, finish_reason="length"))[0]
    empty = imitated(tokenizer, tmp_path, played(given, content="", output=""))[0]
    assert (cut, empty) == ([["answer 0"]], [[TURN_END]])


@pytest.mark.parametrize(
    "rows",
    [
        {"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "A list."}]},
        {"prompt": "What?", "completion": "A list."},
        {"prompt": [{"role": "user", "content": "What?"}], "completion": [{"role": "assistant", "content": "A list."}]},
        {"text": f"<|begin|>{turn('user', 'What?')}{turn('assistant', 'A list.')}"},
        {"prompt": "What?", "chosen": "A list.", "rejected": "x"},
    ],
)  # fmt: skip
def test_public_forms_of_texts_to_imitate(rows, tokenizer, tmp_path):
    found, (text,), _ = imitated(tokenizer, tmp_path, rows)
    assert found == [[f"A list.{TURN_END}"]]
    assert (
        tokenizer.decode(text.branches[0].ids)
        == f"<|begin|>{turn('user', 'What?')}{turn('assistant', 'A list.')}"
    )


def test_turns_of_a_pair_with_their_own_prompts(tmp_path):
    """What evaluate_code writes where a template strips thoughts from the history."""
    from sweet_rl.preferences.pairs import TrajectoryPair, pair_rows
    from sweet_rl.records import trajectory_from_row

    tokenizer = tiny_tokenizer(THINKING)
    chat, histories = TokenizerChat(tokenizer), []
    for last in ("four", "five"):
        messages, history = [Message("user", "2+2?")], [{"role": "user", "content": "2+2?"}]
        for said in ("which base?", last):
            output = f"hm\n</think>\n\n{said}"
            history.append(
                {"role": "assistant", "content": said, "input": chat.render(messages), "output": output}
            )
            history.append({"role": "user", "content": "ten"})
            messages += [Message("assistant", said), Message("user", "ten")]
        histories.append(history[:-1])
    task = {"problem_description": "2+2?", "ground_truth": "4"}
    played = [trajectory_from_row({"task": task, "dialogue_history": h, "answer": None}) for h in histories]
    (pair,) = pair_rows(played, [TrajectoryPair(0, 1)], with_ground_truth=True)
    found, encoded = read(tokenizer, json.loads(json.dumps(pair)))
    assert found[:2] == [f"hm\n</think>\n\n{said}{TURN_END}" for said in ("which base?", "four")]
    first, second = (tokenizer.decode(branch.ids) for branch in encoded.sides[0].branches)
    assert first.startswith("In light that the final answer is: 4.") and "hm" not in second.split("ten")[0]
    pair["chosen_turns"][0]["output"] = ""  # a turn that the agent ended at once
    assert read(tokenizer, pair)[0][:2] == [TURN_END, f"hm\n</think>\n\nfour{TURN_END}"]


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [("yes", "yes"), ("yes", f"yes{TURN_END}"), ("yes", [{"role": "assistant", "content": "yes"}])],
)
def test_the_same_side_twice_is_refused_unless_it_is_meant(chosen, rejected, tokenizer):
    rows = {"prompt": "what?", "chosen": chosen, "rejected": rejected}
    with pytest.raises(
        DataError, match=r'line 7: has two sides of which the same is learned.*"guard": "twin"'
    ):
        read(tokenizer, rows)
    assert read(tokenizer, rows | {"guard": "twin"})[0] == [f"yes{TURN_END}"] * 2


def test_tags_of_thoughts_are_text_where_the_template_knows_none(tokenizer):
    found, _ = read(tokenizer, {"prompt": "q", "chosen": "<think>hm</think>Four.", "rejected": "Five."})
    assert found[0] == f"<think>hm</think>Four.{TURN_END}"
    said = [{"role": "assistant", "content": "Four.", "reasoning_content": "hm"}]
    rows = {"prompt": "q", "chosen": said, "rejected": "Five."}
    (pair,), report = encode(tokenizer, read_pair(rows, "pairs.jsonl", 7, DataSettings(dataset="")))
    assert scored(tokenizer, pair.sides[0]) == [f"Four.{TURN_END}"]
    assert report.lines(9) == [
        "1 pairs hold turns with thoughts, which this chat template does not show: they are left out"
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"prompt": "\n\nHuman: hi\n\nAssistant:", "chosen": " a", "rejected": " b"}, "how another template writes"),
        ({"prompt": "hi", "chosen": "\n\nHuman: hi\n\nAssistant: a", "rejected": "b"}, "how another template writes"),
        ({"prompt": "hi", "chosen": "a<|im_end|>", "rejected": "b"}, "the mark '<|im_end|>'"),
        ({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}], "rejected": "b"}, "and so ends the prompt"),
        ({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [{}]}], "rejected": "b"}, "calls a tool"),
        ({"prompt": "q", "chosen": '[{"role": "assistant", "content": "a"}', "rejected": "b"}, "no JSON"),
        ({"prompt": [{"role": "system", "content": "t"}], "system": "s", "chosen": "a", "rejected": "b"}, "another system text"),
        ({"prompt": "q", "chosen": "a", "rejected": "b", "chosen_token_ids": [-1]}, "must be a list of token ids"),
        ({"prompt": ASK + OPEN, "chosen": "a", "rejected": "b", "chosen_token_ids": [99999], "rejected_token_ids": [5], "tokenizer": "own"}, "is none of the tokenizer's"),
    ],
)  # fmt: skip
def test_rows_of_other_forms_are_refused(rows, message, tokenizer):
    rows = rows | ({"tokenizer": tokenizer_digest(tokenizer)} if "tokenizer" in rows else {})
    with pytest.raises(DataError, match=message.replace("|", r"\|")):
        read(tokenizer, rows)


def test_a_word_that_begins_the_answers_is_no_prompt_in_them(tokenizer):
    assert (
        read(tokenizer, {"prompt": "I", "chosen": "It is", "rejected": "In no way"})[0][0]
        == f"It is{TURN_END}"
    )


def test_messages_that_are_marked_are_only_read(tokenizer, tmp_path):
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0}] * 2
    rows = {"messages": [*said[:3], {"role": "assistant", "content": "b"}]}
    assert imitated(tokenizer, tmp_path, rows)[0] == [[f"b{TURN_END}"]]


def test_whole_dialogues_of_servers_and_scripts_are_written_by_the_template(tokenizer):
    """What evaluate_code writes for a critic of an agent behind an API."""
    messages = [*ASKED, Message("assistant", "which?"), Message("user", "all")]
    for given in (PlainChat().render(messages), as_json(messages)):
        found, pair = read(
            tokenizer, {"chosen": f"hidden: 4. {given}yes", "rejected": f"hidden: 4. {given}no"}
        )
        assert found == [f"which?{TURN_END}", f"yes{TURN_END}", f"which?{TURN_END}", f"no{TURN_END}"]
        assert tokenizer.decode(pair.branches[0].ids).startswith("hidden: 4. <|begin|><|header|>system")


def test_words_that_hold_the_blank_before_them_are_tokenised_behind_their_prompt():
    """As the tokenizers of Llama 2 and Mistral do, which put a blank before every text."""
    from tokenizers import pre_tokenizers

    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    _, pair = read(tokenizer, {"prompt": "sum it", "chosen": "it is", "rejected": "no"})
    (branch,) = pair.sides[0].branches
    whole = TokenizerChat(tokenizer).render([Message("user", "sum it")]) + f"it is{TURN_END}"
    assert list(branch.ids) == tokenizer(whole, add_special_tokens=False)["input_ids"]


def test_what_stands_before_a_text_is_read_whatever_the_tokenizer():
    template = THINKING.replace(
        "<|header|>assistant\n<think>\n{% endif %}", "<|header|>assistant {% endif %}"
    ).replace("<|header|>{{ m.role }}\n", "<|header|>{{ m.role }} ")
    tokenizer = tiny_tokenizer(template)
    found, pair = read(tokenizer, {"prompt": "2+2?", "chosen": "four", "rejected": "five"})
    assert found[0] == f"four{TURN_END}"
    assert "<think>\n\n</think>" in tokenizer.decode(pair.branches[0].ids)


def test_an_end_of_several_tokens_stops_no_word_and_cuts_nothing():
    from sweet_rl.policies.decoding import end_tokens

    template = "{% for m in messages %}<a>{{ m.role }}\n{{ m.content }}<b>\n{% endfor %}{% if add_generation_prompt %}<a>assistant\n{% endif %}"
    tokenizer = tiny_tokenizer(template)
    assert end_tokens(None, tokenizer) == {tokenizer.eos_token_id}
    rows = row("<a>user\nq<b>\n<a>assistant\nif x > 3<b>", "<a>user\nq<b>\n<a>assistant\nno<b>")
    pairs, report = encode(tokenizer, rows, max_len=20)
    assert pairs == [] and "left out" in report.lines(20)[0]
