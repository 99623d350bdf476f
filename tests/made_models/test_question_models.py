"""Tiny models for online learning, and the chat agent of Twenty Questions: made from nothing, fit for their use."""

from random import Random

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from sweet_rl.chat import TokenizerChat
from sweet_rl.commands.make_embedded_agent import make_embedded_agent
from sweet_rl.errors import UsageError
from sweet_rl.tiny_models.question_models import make_models
from sweet_rl.tiny_models.warm_start import make_agent
from sweet_rl.types import Message
from sweet_rl.worlds.twenty_questions.school import SCHOOL, asked_games

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


def test_games_to_read_are_won_or_lost_games_about_all_ten_words():
    games = asked_games(Random(0), games=3)
    assert len(games) == 30
    for game in games:
        assert game.messages[0] == Message("user", "Questions:\n")
        assert game.messages[-1].role == "assistant"  # what is learnt is the agent's
        assert all(type(message) is Message for message in game.messages)
    assert len({game.messages[-1].content for game in games}) >= 10


def test_the_agent_of_the_game_reads_a_question_as_one_token(tmp_path):
    make_agent(tmp_path, "Ask.", seed=0, school=SCHOOL, steps=0.01, quiet=True)
    chat = TokenizerChat.from_pretrained(tmp_path)
    question = asked_games(Random(1), games=1)[0].messages[1].content
    assert len(chat.encode(question)) == 1
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config.vocab_size == len(chat.tokenizer)


def test_a_world_without_texts_has_no_embedded_agent(tmp_path):
    for world in ("lantern", "alfworld-data"):
        with pytest.raises(UsageError, match="has nothing that a tiny model could read"):
            make_embedded_agent(str(tmp_path / "agent"), world=world)
    assert not (tmp_path / "agent").exists()
