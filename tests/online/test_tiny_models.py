"""Tiny models for online learning: what their tokens are, that the seed decides, that attention can look and copy."""

import random

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from sweet_rl.chat.reflect_format import ACTION_MARKER, CHOICES
from sweet_rl.online.reflect.agent import label_tokens
from sweet_rl.online.tiny_models import make_models, make_reflect_model

TEXTS = ["The taxi is at row 2 column 4. Now move west, towards the passenger."] * 3


def made(folder, **how):
    return make_reflect_model(folder, **{"seed": 0, "texts": TEXTS, "hidden_size": 32, "layers": 1} | how)


@pytest.mark.parametrize("rotary", [False, True])
def test_every_label_is_one_token_and_the_seed_decides(tmp_path, rotary):
    """Labels of a world of one's own, too."""
    seeds = {"a": 0, "b": 0, "c": 1}
    how = {"rotary": rotary, "labels": ("higher", "warm")}
    folders = [made(tmp_path / name, seed=seed, **how) for name, seed in seeds.items()]
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    assert len(set(label_tokens(tokenizer, [*CHOICES, "higher", "warm"]))) == len(CHOICES) + 2
    first, again, other = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in folders)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_rotary_model_sees_distances_and_a_frozen_head_can_be_sure(tmp_path):
    model = AutoModelForCausalLM.from_pretrained(made(tmp_path / "model", rotary=True))
    ids = torch.arange(300, 320)[None]
    with torch.no_grad():
        here = model(input_ids=ids, position_ids=torch.arange(20)[None]).logits
        there = model(input_ids=ids, position_ids=torch.arange(20)[None] + 50).logits
        torch.testing.assert_close(here, there, atol=1e-3, rtol=0)
        # A hidden state that points along a token's row, as long as the last norm makes them.
        row = model.get_output_embeddings().weight[310]
        hidden = row / row.norm() * len(row) ** 0.5
        assert model.get_output_embeddings()(hidden).softmax(-1)[310] > 0.9


def test_a_phrase_is_one_token_and_labels_stay_tokens(tmp_path):
    folders = [made(tmp_path / str(phrases), phrases=phrases) for phrases in (False, True)]
    words, phrases = (AutoTokenizer.from_pretrained(path) for path in folders)
    text = f"{TEXTS[0]}{ACTION_MARKER}17"
    ids = phrases(text)["input_ids"]
    assert len(ids) < len(words(text)["input_ids"]) / 1.5
    assert "The taxi is at row " in [phrases.decode([token]) for token in ids]
    assert phrases.decode([ids[-1]]) == "17"
    assert phrases.decode(ids, clean_up_tokenization_spaces=False) == text
    model = AutoModelForCausalLM.from_pretrained(folders[1])
    assert model.get_input_embeddings().weight.shape[0] == len(phrases)


def test_a_numbered_name_is_one_token_wherever_it_stands(tmp_path):
    told = [f"You see a drawer {n}, and a shelf 1.\nAction {n}: go to drawer {n}" for n in range(12)] * 3
    tokenizer = AutoTokenizer.from_pretrained(made(tmp_path / "model", texts=told, phrases=True, names=True))
    pieces = [[tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]] for text in told[:12]]
    for n, found in enumerate(pieces):
        assert "".join(found) == told[n]
        assert found.count(f" drawer {n}") == 2, found
        assert " shelf 1" in found
    assert "You see a" in pieces[3]  # a phrase ends before a name
    assert " drawer 99" not in [tokenizer.decode([t]) for t in tokenizer("go to drawer 99")["input_ids"]]


WORDS = "kava miro teno lupi sado wexi rona pelu gato vimi dora zune hafi boku syla jeno".split()


def lists(count):
    """Texts with a list of six pairs, then one of its keys with a colon; and the values, the right one first."""
    draws = random.Random(7)
    for _ in range(count):
        keys, values = draws.sample(WORDS[:8], 6), draws.sample(WORDS[8:], 6)
        pairs = [f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
        asked = draws.randrange(6)
        yield "\n".join([*pairs, "", f"It says {keys[asked]}:"]), [values[asked], *values]


def found_again(folder):
    """How often the likeliest of the list's values is the right one."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    right = 0
    for text, (answer, *values) in lists(40):
        with torch.no_grad():
            logits_V = model(torch.tensor([tokenizer(text)["input_ids"]])).logits[0, -1]
        assert logits_V.isfinite().all()  # those of padding, too
        scores = {value: float(logits_V[tokenizer(f" {value}")["input_ids"][0]]) for value in values}
        right += max(scores, key=scores.__getitem__) == answer
    return right / 40


def test_a_model_that_copies_finds_again_what_a_list_said_before_it_has_learned_anything(tmp_path):
    """Chance is a sixth. It knows no word: what stands behind one is in the text alone."""
    texts = [text for text, _ in lists(40)]
    fresh, copying = (
        make_reflect_model(tmp_path / str(copies), seed=3, texts=texts, rotary=True, copies=copies)
        for copies in (False, True)
    )
    assert found_again(fresh) < 0.4
    assert found_again(copying) > 0.85


def test_focus_makes_a_fresh_model_look_at_fewer_places(tmp_path):
    looks = []
    for focus in (1.0, 2.0):
        folder = made(tmp_path / str(focus), rotary=True, focus=focus)
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
        with torch.no_grad():
            (seen,) = model(input_ids=torch.arange(300, 340)[None], output_attentions=True).attentions
        looks.append(float(seen[0, :, -1].max(dim=-1).values.mean()))
    assert looks[1] > 2 * looks[0]


GAME = "Questions:\nIs it alive? No.\nIs it a pen? Yes.\n"


def test_frequent_sentences_become_tokens_and_lines_end_by_one_of_their_own(tmp_path):
    policy, critic = make_models(tmp_path, seed=0, texts=[GAME] * 3, hidden_size=32, layers=1)
    for folder in (policy, critic):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(GAME, add_special_tokens=False)["input_ids"]
        pieces = [tokenizer.decode([token]) for token in ids]
        assert pieces == [
            *("Questions:", "\n"),
            *("Is it alive?", " No.", "\n"),
            *("Is it a pen?", " Yes.", "\n"),
        ]
        assert tokenizer.decode(tokenizer("Ünseen\n", add_special_tokens=False)["input_ids"]) == "Ünseen\n"
    assert AutoModelForCausalLM.from_pretrained(policy).config.hidden_size == 32
    encoder = AutoModel.from_pretrained(critic)
    assert encoder(torch.tensor([[3, 4, 5]])).last_hidden_state.shape == (1, 3, 32)


def test_weights_come_from_the_seed_and_are_not_made_twice(tmp_path):
    def weights(name, seed):
        policy, _ = make_models(tmp_path / name, seed=seed, hidden_size=32, layers=1)
        return AutoModelForCausalLM.from_pretrained(policy).state_dict()["transformer.wte.weight"]

    first, other = weights("a", 0), weights("b", 1)
    assert not torch.equal(first, other)
    assert torch.equal(first, weights("c", 0))
    assert torch.equal(first, weights("a", 1))  # they are there already
