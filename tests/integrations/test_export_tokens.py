"""Sampled tokens reach other trainers as they are, or it is told that they do not. Their own packages read the files."""

import json
import math
import random
import re
from types import SimpleNamespace

import pytest

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.integrations.export_pairs import export_pairs
from sweet_rl.training.data import read_pairs
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.settings import DataSettings
from tests.conftest import ROOT
from tests.integrations.test_export_pairs import AGENT, LATER, PROMPT, USER
from tests.tiny_models import TURN_END, save_tiny_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny_llama(tmp_path_factory.mktemp("model")))


@pytest.fixture
def tokenizer(model):
    return load_tokenizer(model)


@pytest.fixture
def export(tmp_path, model):
    def run(rows, **flags):
        source, target = tmp_path / "pairs.jsonl", tmp_path / "trl_pairs" / "train.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        export_pairs(str(source), str(target), **{"tokenizer": model, "overwrite": True} | flags)
        return [json.loads(line) for line in target.read_text().splitlines()]

    return run


@pytest.fixture
def pair(tokenizer):
    """Makes pairs of single turns from the ids that were sampled."""

    def make(chosen, rejected, prompt=LATER):
        text = {side: tokenizer.decode(ids) for side, ids in (("chosen", chosen), ("rejected", rejected))}
        ids = {"chosen_token_ids": chosen, "rejected_token_ids": rejected}
        return {"prompt": prompt, "tokenizer": tokenizer_digest(tokenizer)} | text | ids

    return make


def random_pairs(pair, tokenizer, count=12):
    """As an untrained model samples: any tokens, some turns cut by the limit."""
    draw, end = random.Random(0), tokenizer.eos_token_id
    ordinary = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]

    def turn():
        ids = draw.choices(ordinary, k=draw.randint(3, 9))
        return ids if draw.random() < 0.3 else [*ids, end]

    return [pair(turn(), turn()) for _ in range(count)]


def as_trained_here(tmp_path, tokenizer):
    """What `train_dpo` sees of the same pairs: prompt and sides together."""
    rows = read_pairs(DataSettings(str(tmp_path / "pairs.jsonl"), find_prompt=True), seed=0).train
    return [
        [list(branch.ids) for branch in one.branches]
        for one in TurnEncoder(tokenizer, max_len=10_000).encode(rows)[0]
    ]


def whole(row):
    return [row["prompt_ids"] + row["chosen_ids"], row["prompt_ids"] + row["rejected_ids"]]


@pytest.mark.parametrize("conversational", [False, True])
def test_rows_for_trl_carry_the_sampled_ids(export, pair, tokenizer, tmp_path, conversational):
    end = tokenizer.eos_token_id
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "list"]
    assert tokenizer("list", add_special_tokens=False)["input_ids"] != letters
    (row,) = export([pair([*letters, end], letters)], conversational=conversational)
    assert row["prompt_ids"] == tokenizer(LATER, add_special_tokens=False)["input_ids"]
    assert (row["chosen_ids"], row["rejected_ids"]) == ([*letters, end], letters)  # no end token is invented
    assert [whole(row)] == as_trained_here(tmp_path, tokenizer)


def test_rows_without_sampled_ids_carry_those_that_training_here_makes(export, tokenizer, tmp_path):
    dialogues = [
        {"chosen": f"{LATER}ab", "rejected": f"{PROMPT}No.{TURN_END}{USER}So.{TURN_END}{AGENT}c"},
        {"chosen": f"{LATER}\n\nab", "rejected": f"{LATER}b"},  # line breaks that the header's merge with
        {"prompt": LATER, "chosen": "\n\na", "rejected": "b"},
    ]
    rows = export(dialogues)
    assert [whole(row) for row in rows] == as_trained_here(tmp_path, tokenizer)
    assert rows[0]["prompt_ids"] == tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    assert all(row["chosen_ids"] and row["rejected_ids"] for row in rows)


def test_drift_is_counted_and_told(export, pair, tokenizer, capsys):
    plain = tokenizer("What?", add_special_tokens=False)["input_ids"]
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "list"]
    same, other = pair([*plain, tokenizer.eos_token_id], plain), pair(plain, letters)
    export([same, other, other, {"prompt": PROMPT, "chosen": "a", "rejected": "b"}])
    said = capsys.readouterr().out
    assert "The texts of 2 of 3 pairs become other tokens than were sampled (" in said
    assert "pairs.jsonl:2" in said
    assert "docs/export.md#exact-tokens" in said
    export([same])
    assert "The texts of 0 of 1 pairs become other tokens than were sampled.\n" in capsys.readouterr().out


def test_more_drift_than_may_be_is_refused(export, pair, tokenizer, tmp_path):
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "list"]
    plain = tokenizer("What?", add_special_tokens=False)["input_ids"]
    rows = [pair(plain, plain[:1]), pair(plain, letters)]
    with pytest.raises(
        UsageError, match=r"1 of 2 pairs \(50%\) .*jsonl:2; at most 5% may \(--max_drift\).*--format trl"
    ):
        export(rows, format="openrlhf")
    assert not (tmp_path / "trl_pairs").exists()
    assert len(export(rows, format="openrlhf", max_drift=0.5)) == 2
    assert set(export(rows, format="openrlhf", max_drift=0.5)[0]) == {"prompt", "chosen", "rejected"}
    with pytest.raises(UsageError, match="at most 0% may"):
        export(rows, max_drift=0)
    assert len(export(rows)) == 2


def exact_trainer():
    """The class that docs/export.md shows."""
    code = re.search(
        r"^from trl.*?return dataset.*?$", (ROOT / "docs/export.md").read_text(), re.MULTILINE | re.DOTALL
    )
    found = {}
    exec(code[0], found)
    return found["ExactDPOTrainer"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("precomputed", [False, True])
def test_trl_trains_three_steps_on_the_sampled_tokens(export, pair, tokenizer, model, tmp_path, precomputed):
    trl = pytest.importorskip("trl", reason="the trainer of the package trl reads the rows")
    from datasets import load_dataset

    rows = export(random_pairs(pair, tokenizer))
    seen = []

    class Watched(exact_trainer()):
        def compute_loss(self, model, inputs, *args, **kwargs):
            for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return super().compute_loss(model, inputs, *args, **kwargs)

    settings = trl.DPOConfig(
        str(tmp_path / "trained"), max_length=None, max_steps=3, per_device_train_batch_size=2, use_cpu=True, bf16=False,
        report_to="none", save_strategy="no", precompute_ref_log_probs=precomputed, disable_tqdm=True,
    )  # fmt: skip
    pairs = load_dataset(
        "json", data_files=str(tmp_path / "trl_pairs/train.jsonl"), cache_dir=str(tmp_path / "cache")
    )
    trainer = Watched(model=model, args=settings, train_dataset=pairs["train"])
    trained = trainer.train()
    assert trained.global_step == 3
    assert math.isfinite(trained.training_loss)
    given = [tuple(ids) for row in rows for ids in whole(row)]
    assert len(seen) == 12
    assert {tuple(ids) for ids in seen} <= set(given)


@pytest.mark.filterwarnings("default")
def test_trl_by_itself_makes_other_tokens_of_the_texts(export, pair, tokenizer, model, tmp_path, capsys):
    """What the drift says: as many pairs as it counts are others for `trl dpo`."""
    trl = pytest.importorskip("trl", reason="the trainer of the package trl reads the rows")
    from datasets import Dataset

    rows = export(random_pairs(pair, tokenizer))
    drifted = int(re.search(r"The texts of (\d+) of 12 pairs", capsys.readouterr().out)[1])
    settings = trl.DPOConfig(
        str(tmp_path / "trained"), max_length=None, use_cpu=True, bf16=False, report_to="none"
    )
    trainer = trl.DPOTrainer(model=model, args=settings, train_dataset=Dataset.from_list(rows))
    end = [tokenizer.eos_token_id]
    closed = [[ids if ids[-1:] == end else ids + end for ids in whole(row)] for row in rows]
    differing = sum(whole(made) != want for made, want in zip(trainer.train_dataset, closed, strict=True))
    assert 0 < differing == drifted


@pytest.mark.filterwarnings("default")
def test_openrlhf_reads_the_texts_as_training_here(export, pair, tokenizer, tmp_path):
    package = pytest.importorskip(
        "openrlhf.datasets", reason="the dataset code of the package openrlhf reads the rows"
    )
    from datasets import Dataset

    plain = tokenizer("What should it return?", add_special_tokens=False)["input_ids"]
    step = pair([*plain, tokenizer.eos_token_id], plain[:3])
    dialogues = [
        step,
        {"chosen": f"{LATER}ab", "rejected": f"{PROMPT}No.{TURN_END}{USER}So.{TURN_END}{AGENT}c"},
    ]
    rows = export(dialogues, format="openrlhf")
    data = SimpleNamespace(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected")
    strategy = SimpleNamespace(args=SimpleNamespace(data=data))
    read = package.RewardDataset(
        Dataset.from_list(rows), tokenizer, 10_000, strategy, is_dpo=True, num_processors=1
    )
    end = [tokenizer.eos_token_id]
    wanted = [
        [ids if ids[-1:] == end else ids + end for ids in sides]
        for sides in as_trained_here(tmp_path, tokenizer)
    ]
    assert [[read[i][0][0].tolist(), read[i][2][0].tolist()] for i in range(2)] == wanted
    prompts = [tokenizer(row["prompt"], add_special_tokens=False)["input_ids"] for row in rows]
    assert [read[i][4] for i in range(2)] == [len(ids) for ids in prompts]  # what is not scored
