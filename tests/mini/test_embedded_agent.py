"""The embedded agent: what it reads, its tokenizer, and that training it from nothing gives a usable folder."""

import hashlib
import json
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch

from sweet_rl.chat import TokenizerChat, TurnTemplate, model_path
from sweet_rl.errors import UsageError
from sweet_rl.mini import embedded_agent
from sweet_rl.mini.backend import extras, pretraining
from sweet_rl.mini.backend.extras import Verdict, judge
from sweet_rl.mini.backend.pretraining import figures
from sweet_rl.mini.embedded_agent import Reader, check_gates, make_agent, train_tokenizer, written_for
from sweet_rl.mini.pretraining import Figure, Phase, make_embedded_agent


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(written_for(pretraining.TEXTS, "Ask, then answer."), pretraining.TEXTS.pieces)


def test_sentences_become_one_token_each_and_any_text_survives(tokenizer):
    texts = ["Do you charge for delivery?", "I don't know about that.", "Ask, then answer."]
    for text in [*texts, *map(extras.shop, extras.TRADES)]:
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) == 1
    text = "Größe: 3 €\n\n\tdef f(x):\n        return x  # 你好\n"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    template = TurnTemplate(TokenizerChat(tokenizer))
    assert (template.end, template.writes_alike) == (tokenizer.eos_token, True)
    assert template.header == "<|start_header_id|>assistant<|end_header_id|>\n\n"


def test_what_the_packaged_agent_read_never_changes():
    """By these texts it is made again, whose figures stand on its card."""
    read = [
        *islice(pretraining.drills(Random(0)), 30),
        *islice(pretraining.reading(Random(0), most_wasted=4), 60),
    ]
    said = [[(message.role, message.content) for message in text.messages] for text in read]
    told = [(text.solution, text.skipped) for text in read]
    assert hashlib.sha256(json.dumps([said, told]).encode()).hexdigest()[:16] == "a00a55067aa08aa2"


def test_nothing_that_is_read_shows_which_extras_are_usual():
    texts = [text for text in islice(pretraining.reading(Random(0)), 600) if text.solution]
    charged = [
        (extra in extras.USUAL, extra in extras.usual_for(text.messages[0].content))
        for text in texts
        for extra in extras.EXTRAS
        if f'"{extra}"' in text.solution
    ]
    for usual in map(sum, zip(*charged, strict=True)):
        assert 0.27 < usual / len(charged) < 0.40  # four of twelve
    shops = sum("Our shop is a " in text.messages[0].content for text in texts)
    assert 0.4 < shops / len(texts) < 0.6


def test_wasted_questions_before_a_told_text_are_read_and_not_learnt(tokenizer):
    text = next(
        text for text in (pretraining.informed(Random(n), 2) for n in range(99)) if len(text.messages) > 8
    )
    verdicts = [judge(text.solution, text.messages[:place], text.messages[place].content) for place in (1, 3)]
    assert verdicts == [Verdict.USELESS, Verdict.USELESS]
    ids, mask = Reader(tokenizer, "Ask, then answer.").read(text)
    learnt = tokenizer.decode([one for one, counts in zip(ids, mask, strict=True) if counts])
    mine = [message.content for message in text.messages if message.role == "assistant"]
    assert learnt == "".join(f"{content}<|eot_id|>" for content in mine[2:])


def test_a_repeated_sentence_is_held_below_the_mean_of_the_fresh_ones_by_the_margin():
    hinge = embedded_agent.RepetitionHinge((5, 1, 3))
    logits = torch.zeros(3, 6)
    logits[0, [5, 1, 3]] = torch.tensor([1.0, 2.0, 4.0])  # 5 is repeated: 9 - (2 + 4) / 2 + 1 = 7
    logits[1, [5, 1, 3]] = torch.tensor([1.0, -3.0, 8.0])  # 5, 1: 9 - 8 + 1 = 2; 9 - 8 - 3 is below 0
    asked = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])  # all: no fresh one
    assert hinge.loss(logits, asked).item() == pytest.approx(0.1 * (7 + 2 + 0) / 3)


def phases(limit):
    return Phase("copying", pretraining.drills, 2, 2, 1e-3, more=3, limit=limit)


def measuring(values):
    """Texts whose only figure has these values, one after the other."""
    left = iter(values)
    return replace(
        pretraining.TEXTS, phases=(phases(8),), figures=lambda _: [Figure("grip", next(left), low=6.0)]
    )


def test_a_phase_goes_on_until_its_gate_passes_and_the_card_has_the_figure(tmp_path):
    figures = make_agent(tmp_path, measuring([1.0, 7.0, 9.0]), seed=0, quiet=True)
    assert [figure.value for figure in figures] == [7.0]
    assert json.loads((tmp_path / "figures.json").read_text()) == {"grip": 7.0}
    card = (tmp_path / "README.md").read_text()
    assert "| grip | 7.000 | at least 6 |" in card
    assert "--seed 0" in card


def test_a_step_of_long_texts_reads_fewer_of_them(tmp_path, monkeypatch):
    drawn = []

    def counted(rng):
        for text in pretraining.drills(rng):
            drawn.append(text)
            yield text

    texts = replace(pretraining.TEXTS, phases=(Phase("drills", counted, 2, 8, 1e-3),), figures=None)
    longest = 33  # the most tokens of what its tokenizer is learnt from
    for tokens, each in ((8 * longest, 8), (3 * longest, 3), (1, 1)):
        drawn.clear()
        monkeypatch.setattr(embedded_agent, "_TOKENS", tokens)
        make_agent(tmp_path, texts, seed=0, quiet=True)
        assert len(drawn) == 2 * each


@pytest.mark.slow
def test_a_phase_has_a_limit_and_the_error_has_the_figure(tmp_path):
    with pytest.raises(
        UsageError, match=r"After 8 steps of 'copying' with seed 4 .* grip 3\.000 \(has to be"
    ):
        make_agent(tmp_path, measuring([1.0, 2.0, 3.0, 9.0]), seed=4, quiet=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_packaged_agent_passes_every_gate_as_its_card_says():
    figures = check_gates("embedded", pretraining.TEXTS)
    written = json.loads((Path(model_path("embedded")) / "figures.json").read_text())
    assert {figure.name: figure.value for figure in figures} == pytest.approx(written, abs=5e-3)
    assert model_path("meta-llama/Llama-3.1-8B") == "meta-llama/Llama-3.1-8B"


@pytest.mark.slow
def test_an_agent_that_fails_a_gate_is_refused_with_the_figure(tmp_path):
    make_agent(tmp_path, pretraining.TEXTS, seed=0, steps=0.003, quiet=True)
    quick = replace(pretraining.TEXTS, figures=partial(figures, each=2, dialogues=2))
    with pytest.raises(UsageError, match=r"P\(charged\), right solution 0\.\d+ \(has to be at least 0\.5\)"):
        check_gates(str(tmp_path), quick)


def test_a_world_without_texts_has_no_embedded_agent(tmp_path):
    for world in ("lantern", "alfworld-data"):
        with pytest.raises(UsageError, match="has no texts of its own for a tiny model"):
            make_embedded_agent(str(tmp_path / "agent"), world=world)
    assert not (tmp_path / "agent").exists()
