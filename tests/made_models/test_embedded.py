"""The embedded agent: what it reads, its tokenizer, and that training it from nothing gives a usable folder."""

from itertools import islice
from random import Random

import pytest

from sweet_rl.chat import TurnFormat, model_path
from sweet_rl.types import ANSWER_MARKER
from sweet_rl.worlds.backend_programming.mini import extras, school


@pytest.fixture(scope="module")
def tokenizer():
    from sweet_rl.tiny_models.warm_start import train_tokenizer, written_for

    return train_tokenizer(written_for(school.SCHOOL, "Ask, then answer."))


def test_questions_replies_and_lines_of_code_become_one_token_each(tokenizer):
    for text in ("Do you charge for delivery?", "I don't know about that.", "Ask, then answer."):
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) == 1


def test_any_text_survives_the_tokenizer(tokenizer):
    text = "Größe: 3 €\n\n\tdef f(x):\n        return x  # 你好\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_turns_are_found_by_the_template(tokenizer):
    form = TurnFormat.of(tokenizer)
    assert form.end_id == tokenizer.eos_token_id
    assert tokenizer.decode(form.header_ids) == "<|start_header_id|>assistant<|end_header_id|>\n\n"


def test_the_drills_say_everything_that_the_answer_needs():
    for text in islice(school.drills(Random(0)), 30):
        told = extras.named_amounts([message.content for message in text.messages if message.role == "user"])
        assert text.messages[-1].content == f"{ANSWER_MARKER}\n{extras.source(told)}"


def test_nothing_that_is_read_shows_which_extras_are_usual():
    texts = list(islice(school.reading(Random(0)), 200))
    charged = [
        extra for text in texts if text.solution for extra in extras.EXTRAS if f'"{extra}"' in text.solution
    ]
    share = sum(extra in extras.USUAL for extra in charged) / len(charged)
    assert 0.23 < share < 0.44  # a third of the extras are usual ones


def test_dialogues_keep_the_turn_limit_and_end_with_the_agent():
    for text in islice(school.teaching(Random(0)), 60):
        mine = [message for message in text.messages if message.role == "assistant"]
        assert text.messages[-1] is mine[-1]
        assert len(mine) <= extras.MAX_TURNS
        assert not any(ANSWER_MARKER in message.content for message in mine[:-1])


def test_a_few_steps_give_a_folder_that_plays_and_another_seed_another_model(tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    from sweet_rl.tiny_models.warm_start import make_agent

    for seed, name in ((0, "a"), (0, "b"), (1, "c")):
        make_agent(tmp_path / name, "Ask.", seed=seed, school=school.SCHOOL, steps=0.003, quiet=True)
    weights = [AutoModelForCausalLM.from_pretrained(tmp_path / name).lm_head.weight for name in "abc"]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    read = [(tmp_path / name / "tokenizer.json").read_bytes() for name in "abc"]
    assert read[0] == read[2]


def test_the_packaged_agent_has_a_name():
    assert model_path("meta-llama/Llama-3.1-8B") == "meta-llama/Llama-3.1-8B"
    assert model_path("embedded").endswith("tiny_models/agent")
