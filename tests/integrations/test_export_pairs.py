"""Pairs for other trainers: they are given what was sampled, whose own packages read it; what cannot be given is refused."""

import json
import math
import random
import re
from types import SimpleNamespace

import pytest

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.cli.parse import read, values_of
from sweet_rl.errors import DataError, UsageError
from sweet_rl.integrations.export import export_pairs
from sweet_rl.training.data import read_pairs
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.settings import DataSettings
from tests.conftest import ROOT
from tests.tiny_models import BEGIN, TURN_END, save_tiny_llama, tiny_tokenizer

USER, AGENT = "<|header|>user<|end_header|>\n\n", "<|header|>assistant<|end_header|>\n\n"
PROMPT = f"{BEGIN}{USER}Write.{TURN_END}{AGENT}"
LATER = f"{PROMPT}What?{TURN_END}{USER}This.{TURN_END}{AGENT}"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def export(tmp_path, tokenizer):
    def run(*rows, ids=False, **flags):
        source, target = tmp_path / "pairs.jsonl", tmp_path / "out" / "train.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        export_pairs(str(source), str(target), **{"tokenizer": tokenizer, "overwrite": True} | flags)
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        return [{name: row[name] for name in row if ids or not name.endswith("_ids")} for row in rows]

    return run


def test_trl_adds_the_begin_token_itself_and_openrlhf_does_not(export, tmp_path, capsys):
    row = {"prompt": PROMPT, "chosen": f"a{TURN_END}", "rejected": "b\n", "task_id": "t"}
    sides = {"chosen": f"a{TURN_END}", "rejected": f"b{TURN_END}"}
    assert export(row) == [{"prompt": PROMPT.removeprefix(BEGIN)} | sides]
    assert capsys.readouterr().out == f"1 pairs are in {tmp_path / 'out' / 'train.jsonl'}.\n"
    assert export(row, format="openrlhf") == [{"prompt": PROMPT} | sides]


def test_what_trl_tokenises_is_what_training_here_sees(export, tokenizer):
    """TRL 1.16: special tokens are added to the prompt, and to prompt and side together."""
    from transformers import AutoTokenizer

    tok = AutoTokenizer.from_pretrained(tokenizer)
    (row,) = export({"prompt": LATER, "chosen": "a b", "rejected": "c"})
    ours, said = (tok(text, add_special_tokens=False)["input_ids"] for text in (LATER, "a b"))
    assert tok(row["prompt"])["input_ids"] == ours
    assert tok(row["prompt"] + row["chosen"])["input_ids"] == [*ours, *said, tok.eos_token_id]


def test_whole_dialogues_are_cut_where_the_agent_begins_to_differ(export, capsys):
    told, other = "In light that the final answer is: x.", f"Why?{TURN_END}{USER}So.{TURN_END}{AGENT}c"
    late = {"chosen": f"{told}{LATER}ab", "rejected": f"{told}{PROMPT}{other}"}
    asked = f"What?{TURN_END}{USER}This.{TURN_END}{AGENT}ab{TURN_END}"
    assert export({"chosen": f"{LATER}ab", "rejected": f"{LATER}ac"}, late) == [
        {"prompt": LATER.removeprefix(BEGIN), "chosen": f"ab{TURN_END}", "rejected": f"ac{TURN_END}"},
        {"prompt": told + PROMPT, "chosen": asked, "rejected": f"{other}{TURN_END}"},
    ]
    said = capsys.readouterr().out
    assert "2 pairs without a prompt" in said
    assert "1 pairs continue over several turns: there the partner's words are scored too" in said
    assert "1 pairs do not begin with the begin token, which TRL puts first" in said


def test_sides_that_the_token_limit_cut_are_counted(export, tokenizer, capsys):
    tok = load_tokenizer(tokenizer)
    ids = {"chosen_token_ids": [40, tok.eos_token_id], "rejected_token_ids": [41]}
    row = {"prompt": PROMPT, "chosen": f"E{TURN_END}", "rejected": "F", "tokenizer": tokenizer_digest(tok)}
    both = row | ids, row | ids | {"tokenizer": "another"}
    with pytest.raises(
        UsageError, match=r"1 of 2 rows were sampled with another tokenizer.*--other_tokenizer"
    ):
        export(*both)
    export(*both, other_tokenizer=True)
    assert "\n1 sides were cut by the token limit when they were sampled" in capsys.readouterr().out


def test_pairs_of_one_text_and_an_end_token_that_is_not_the_tokenizers_are_told(export, tmp_path, capsys):
    tok = tiny_tokenizer()
    tok.eos_token = "<|end_header|>"
    tok.save_pretrained(tmp_path / "other")
    row = {"prompt": PROMPT, "chosen": f"a{TURN_END}", "rejected": "a", "guard": "twin"}
    assert len(export(row, row | {"rejected": "b"}, tokenizer=str(tmp_path / "other"))) == 2
    said = capsys.readouterr().out
    assert "\n1 pairs have the same text on both sides" in said
    assert "The tokenizer's eos_token is '<|end_header|>'" in said


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": PROMPT, "chosen": "a"}, "line 1: field 'rejected' must be a text that is not empty"),
        ({"chosen": f"{PROMPT}a", "rejected": f"{PROMPT.replace('user', 'system')}b"}, "line 1: field 'chosen, rejected' share no beginning"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_named_and_the_old_file_stays(export, tmp_path, row, message):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.jsonl").write_text("old")
    with pytest.raises(DataError) as raised:
        export(row)
    assert f"{tmp_path / 'pairs.jsonl'}, {message}" in str(raised.value)
    assert (tmp_path / "out" / "train.jsonl").read_text() == "old"


def test_whole_dialogues_need_a_chat_template(export, tmp_path):
    tiny_tokenizer(chat_template=None).save_pretrained(tmp_path / "bare")
    bare = {"tokenizer": str(tmp_path / "bare")}
    (row,) = export({"prompt": "q", "chosen": "a", "rejected": "b"}, **bare)
    assert row == {"prompt": "q", "chosen": f"a{TURN_END}", "rejected": f"b{TURN_END}"}
    with pytest.raises(DataError, match="has no chat template"):
        export({"chosen": f"{PROMPT}a", "rejected": f"{PROMPT}b"}, **bare)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["p.jsonl"], "--output_path is needed: the .jsonl file"),
        (["p.jsonl", "out.csv", "--tokenizer", "t"], "must end with .jsonl, got 'out.csv'"),
        (["p.jsonl", "out.jsonl"], "--tokenizer is needed: folder or name"),
        (["p.jsonl", "out.jsonl", "--tokenizer", "t", "--format", "csv"], "trl or openrlhf, got 'csv'"),
        (["p.jsonl,q.jsonl", "out.jsonl", "--tokenizer", "t"], "Export files one by one"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_read(flags, message):
    with pytest.raises(UsageError) as raised:
        export_pairs(**values_of(export_pairs, read(export_pairs, flags)))
    assert message in str(raised.value)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny_llama(tmp_path_factory.mktemp("model")))


@pytest.fixture
def tok(model):
    return load_tokenizer(model)


@pytest.fixture
def sampled(export, model):
    """As `export`, with the ids in the rows, by the tok of a model."""
    return lambda rows, **flags: export(*rows, ids=True, **{"tokenizer": model} | flags)


@pytest.fixture
def pair(tok):
    """Makes pairs of single turns from the ids that were sampled."""

    def make(chosen, rejected, prompt=LATER):
        text = {side: tok.decode(ids) for side, ids in (("chosen", chosen), ("rejected", rejected))}
        ids = {"chosen_token_ids": chosen, "rejected_token_ids": rejected}
        return {"prompt": prompt, "tokenizer": tokenizer_digest(tok)} | text | ids

    return make


def random_pairs(pair, tok, count=12):
    """As an untrained model samples: any tokens, some turns cut by the limit."""
    draw, end = random.Random(0), tok.eos_token_id
    ordinary = [i for i in range(len(tok)) if i not in tok.all_special_ids]

    def turn():
        ids = draw.choices(ordinary, k=draw.randint(3, 9))
        return ids if draw.random() < 0.3 else [*ids, end]

    return [pair(turn(), turn()) for _ in range(count)]


def as_trained_here(tmp_path, tok):
    """What `train_dpo` sees of the same pairs: prompt and sides together."""
    rows = read_pairs(DataSettings(dataset=str(tmp_path / "pairs.jsonl")), seed=0)[0]
    encoded = TurnEncoder(tok, DataSettings(dataset="", max_len=10_000)).encode(rows)[0]
    return [[list(branch.ids) for branch in one.branches] for one in encoded]


def whole(row):
    return [row["prompt_ids"] + row["chosen_ids"], row["prompt_ids"] + row["rejected_ids"]]


def test_rows_for_trl_carry_the_sampled_ids(sampled, pair, tok, tmp_path):
    end = tok.eos_token_id
    letters = [tok.convert_tokens_to_ids(letter) for letter in "list"]
    assert tok("list", add_special_tokens=False)["input_ids"] != letters
    (row,) = sampled([pair([*letters, end], letters)])
    assert row["prompt_ids"] == tok(LATER, add_special_tokens=False)["input_ids"]
    assert (row["chosen_ids"], row["rejected_ids"]) == ([*letters, end], letters)  # no end token is invented
    assert [whole(row)] == as_trained_here(tmp_path, tok)


def test_rows_without_sampled_ids_carry_those_that_training_here_makes(sampled, tok, tmp_path):
    dialogues = [
        {"chosen": f"{LATER}ab", "rejected": f"{PROMPT}No.{TURN_END}{USER}So.{TURN_END}{AGENT}c"},
        {"chosen": f"{LATER}\n\nab", "rejected": f"{LATER}b"},  # line breaks that the header's merge with
        {"prompt": LATER, "chosen": "\n\na", "rejected": "b"},
    ]
    rows = sampled(dialogues)
    assert [whole(row) for row in rows] == as_trained_here(tmp_path, tok)
    assert rows[0]["prompt_ids"] == tok(PROMPT, add_special_tokens=False)["input_ids"]
    assert all(row["chosen_ids"] and row["rejected_ids"] for row in rows)


def test_drift_is_counted_and_told(sampled, pair, tok, capsys):
    plain = tok("What?", add_special_tokens=False)["input_ids"]
    letters = [tok.convert_tokens_to_ids(letter) for letter in "list"]
    same, other = pair([*plain, tok.eos_token_id], plain), pair(plain, letters)
    sampled([same, other, other, {"prompt": PROMPT, "chosen": "a", "rejected": "b"}])
    said = capsys.readouterr().out
    told = "The texts of 2 of 3 pairs become other tokens than were sampled ("
    assert all(words in said for words in (told, "pairs.jsonl:2", "docs/export_and_credit.md#exact-tokens"))
    sampled([same])
    assert "The texts of 0 of 1 pairs become other tokens than were sampled.\n" in capsys.readouterr().out


def test_more_drift_than_may_be_is_refused(sampled, pair, tok, tmp_path):
    letters = [tok.convert_tokens_to_ids(letter) for letter in "list"]
    plain = tok("What?", add_special_tokens=False)["input_ids"]
    rows = [pair(plain, plain[:1]), pair(plain, letters)]
    refused = r"1 of 2 pairs \(50%\) .*jsonl:2; at most 5% may \(--max_drift\).*--format trl"
    with pytest.raises(UsageError, match=refused):
        sampled(rows, format="openrlhf")
    assert not (tmp_path / "out").exists()
    assert len(sampled(rows, format="openrlhf", max_drift=0.5)) == 2
    assert set(sampled(rows, format="openrlhf", max_drift=0.5)[0]) == {"prompt", "chosen", "rejected"}
    with pytest.raises(UsageError, match="at most 0% may"):
        sampled(rows, max_drift=0)
    assert len(sampled(rows)) == 2


def exact_trainer():
    """The class that docs/export_and_credit.md shows."""
    code = re.search(r"(?ms)^from trl.*?return dataset.*?$", (ROOT / "docs/export_and_credit.md").read_text())
    found = {}
    exec(code[0], found)
    return found["ExactDPOTrainer"]


@pytest.mark.filterwarnings("default")
def test_trl_trains_three_steps_on_the_sampled_tokens(sampled, pair, tok, model, tmp_path):
    trl = pytest.importorskip("trl", reason="the trainer of the package trl reads the rows")
    from datasets import load_dataset

    rows = sampled(random_pairs(pair, tok))
    seen = []

    class Watched(exact_trainer()):
        def compute_loss(self, model, inputs, *args, **kwargs):
            for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return super().compute_loss(model, inputs, *args, **kwargs)

    settings = trl.DPOConfig(
        str(tmp_path / "trained"), max_length=None, max_steps=3, per_device_train_batch_size=2, use_cpu=True, bf16=False,
        report_to="none", save_strategy="no", precompute_ref_log_probs=True, disable_tqdm=True,
    )  # fmt: skip
    files = {"data_files": str(tmp_path / "out/train.jsonl"), "cache_dir": str(tmp_path / "cache")}
    trainer = Watched(model=model, args=settings, train_dataset=load_dataset("json", **files)["train"])
    trained = trainer.train()
    assert trained.global_step == 3 and math.isfinite(trained.training_loss)
    given = {tuple(ids) for row in rows for ids in whole(row)}
    assert len(seen) == 12 and set(map(tuple, seen)) <= given


@pytest.mark.filterwarnings("default")
def test_trl_by_itself_makes_other_tokens_of_the_texts(sampled, pair, tok, model, tmp_path, capsys):
    """What the drift says: as many pairs as it counts are others for `trl dpo`."""
    trl = pytest.importorskip("trl", reason="the trainer of the package trl reads the rows")
    from datasets import Dataset

    rows = sampled(random_pairs(pair, tok))
    drifted = int(re.search(r"The texts of (\d+) of 12 pairs", capsys.readouterr().out)[1])
    plain = {"max_length": None, "use_cpu": True, "bf16": False, "report_to": "none"}
    settings = trl.DPOConfig(str(tmp_path / "trained"), **plain)
    trainer = trl.DPOTrainer(model=model, args=settings, train_dataset=Dataset.from_list(rows))
    end = [tok.eos_token_id]
    closed = [[ids if ids[-1:] == end else ids + end for ids in whole(row)] for row in rows]
    differing = sum(whole(made) != want for made, want in zip(trainer.train_dataset, closed, strict=True))
    assert 0 < differing == drifted


@pytest.mark.filterwarnings("default")
def test_openrlhf_reads_the_texts_as_training_here(sampled, pair, tok, tmp_path):
    package = pytest.importorskip("openrlhf.datasets", reason="the package openrlhf reads the rows")
    from datasets import Dataset

    plain = tok("What should it return?", add_special_tokens=False)["input_ids"]
    other = {"chosen": f"{LATER}ab", "rejected": f"{PROMPT}No.{TURN_END}{USER}So.{TURN_END}{AGENT}c"}
    rows = sampled([pair([*plain, tok.eos_token_id], plain[:3]), other], format="openrlhf")
    data = SimpleNamespace(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected")
    strategy = SimpleNamespace(args=SimpleNamespace(data=data))
    how = {"is_dpo": True, "num_processors": 1}
    read = package.RewardDataset(Dataset.from_list(rows), tok, 10_000, strategy, **how)
    end = [tok.eos_token_id]
    trained = as_trained_here(tmp_path, tok)
    wanted = [[ids if ids[-1:] == end else ids + end for ids in sides] for sides in trained]
    assert [[read[i][0][0].tolist(), read[i][2][0].tolist()] for i in range(2)] == wanted
    prompts = [tok(row["prompt"], add_special_tokens=False)["input_ids"] for row in rows]
    assert [read[i][4] for i in range(2)] == [len(ids) for ids in prompts]  # what is not scored
