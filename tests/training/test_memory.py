"""Where memory does not suffice: smaller micro-batches with the same result, or an error that says what to do."""

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaForCausalLM, LlamaForSequenceClassification

from sweet_rl.commands.train import train_dpo, train_reward_model, train_sft
from sweet_rl.errors import ServiceError
from sweet_rl.training import steps
from sweet_rl.training.scoring import CandidateScorer
from tests.training.pairs import dialogue_pairs, write_dialogues, write_pairs
from tests.training.test_runs import weights

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of ...")
RECIPE = {"train_batch_size": 8, "learning_rate": 1e-3, "eval_fraction": 0.2, "max_epochs": 2, "quiet": True}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pairs, and the same to imitate."""
    folder = tmp_path_factory.mktemp("pairs")
    texts = [
        {"task": f"task {i % 5}", "answers": ["what should it", "give " * (1 + i % 7)], "reward": 1}
        for i in range(20)
    ]
    pairs = write_pairs(folder / "pairs.jsonl", dialogue_pairs(20))
    return pairs, write_dialogues(folder / "texts.jsonl", texts)


def run(stage, model, data, folder, **flags):
    flags = RECIPE | {"ckpt_path": str(folder / "checkpoints"), "save_path": str(folder / "out")} | flags
    stage(str(model), str(data[stage is train_sft]), **flags)
    return [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]


def room_for(monkeypatch, tokens, kind=LlamaForCausalLM, error=FULL, *, backward=False):
    """Let a model run out of memory with more tokens; backward: when some of its gradients are there."""
    forward, sizes = kind.forward, []

    def full(_):
        raise error

    def bounded(self, input_ids=None, **others):
        sizes.append(input_ids.numel())
        if input_ids.numel() <= tokens:
            return forward(self, input_ids=input_ids, **others)
        if not backward or not torch.is_grad_enabled():
            raise error
        layer = self.model.layers[0]
        hook = layer.register_forward_hook(lambda *given: given[-1].register_hook(full) and None)
        try:
            return forward(self, input_ids=input_ids, **others)
        finally:
            hook.remove()

    monkeypatch.setattr(kind, "forward", bounded)
    return sizes


@pytest.mark.parametrize(
    ("stage", "backward"), [(train_dpo, False), (train_sft, True), (train_reward_model, True)]
)
def test_with_less_memory_the_result_is_the_same(
    stage, backward, steady, data, tmp_path, monkeypatch, capsys
):
    wanted = run(stage, steady, data, tmp_path / "whole", micro_train_batch_size=8)
    kind = LlamaForSequenceClassification if stage is train_reward_model else LlamaForCausalLM
    on_cpu = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
    error = FULL if stage is train_dpo else on_cpu
    sizes = room_for(monkeypatch, 300, kind, error, backward=backward)
    capsys.readouterr()
    fresh = {"reference_cache": "none"} if stage is train_dpo else {}
    found = run(stage, steady, data, tmp_path / "parts", micro_train_batch_size=8, **fresh)
    said = [line for line in capsys.readouterr().out.splitlines() if "Out of memory" in line]
    assert 1 <= len(said) <= 3
    assert "Out of memory at update 1 with" in said[0]
    assert "the result is the same" in said[0]
    assert 0 < sum(size > 300 for size in sizes) < len(sizes) / 3  # in training it was learned from
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        for line in (ours, theirs):
            line.pop("acc", None)  # of pairs that are equal but for rounding, at first
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)
    ours, theirs = weights(tmp_path / "parts"), weights(tmp_path / "whole")
    assert all(torch.allclose(ours[name], theirs[name], atol=2e-4) for name in theirs)


def test_one_row_that_is_too_large_is_named_with_what_to_do(steady, data, tmp_path, monkeypatch):
    room_for(monkeypatch, 30)
    told = r"Out of memory at update 1 with .*in the rows .*jsonl:\d+\. .*--max_len"
    with pytest.raises(ServiceError, match=told):
        run(train_sft, steady, data, tmp_path)


def test_where_rows_depend_on_their_batch_it_stays_as_it_is(steady, data, tmp_path, monkeypatch):
    """The published value is a mean over a batch's padding."""
    room_for(monkeypatch, 300, LlamaForSequenceClassification)
    flags = {"compat": "published", "micro_train_batch_size": 8}
    with pytest.raises(ServiceError, match=r"Out of memory at update 1 .*--micro_train_batch_size"):
        run(train_reward_model, steady, data, tmp_path, **flags)


def test_other_errors_are_not_taken_for_it(steady, data, tmp_path, monkeypatch):
    room_for(monkeypatch, 300, error=RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        run(train_sft, steady, data, tmp_path, micro_train_batch_size=8)


def test_candidates_are_scored_in_parts(steady, monkeypatch):
    scorer = CandidateScorer(steady)
    work = [[5, 6, 7 + n] * 9 for n in range(6)], [[[8, 9], [10]] for _ in range(6)]
    wanted = scorer.score(*work)
    sizes = room_for(monkeypatch, 70)
    found = scorer.score(*work)
    assert len(sizes) > 2
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == [pytest.approx(values, abs=1e-5) for values in theirs]
    room_for(monkeypatch, 5)
    with pytest.raises(ServiceError, match="--max_batch_tokens"):
        scorer.score(*work)


class Card:
    """A GPU with `size` bytes of memory, of which others use some; each token takes a number of bytes."""

    def __init__(self, monkeypatch, *, size, others=0, held=1000, a_token=10, fixed=50):
        self.peak, self.size, self.held, self.a_token, self.fixed = 0, size, held, a_token, fixed
        fakes = {
            "reset_peak_memory_stats": lambda _: setattr(self, "peak", 0),
            "max_memory_allocated": lambda _: self.peak,
            "memory_allocated": lambda _: held,
            "memory_reserved": lambda _: held + 100,
            "mem_get_info": lambda _: (size - others - held - 100, size),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)

    def read(self, rows):
        tokens = len(rows) * max(row.length for row in rows)
        needed = self.held + self.fixed + self.a_token * tokens
        if needed > self.size:
            raise FULL
        self.peak = max(self.peak, needed)
        return tokens


@pytest.mark.parametrize(
    ("lengths", "card", "reserve", "wanted"),
    [
        ([5, 100, 7], {"size": 10_000}, 0, 795),  # 10,000 - 1,000 - 1,000 held - 50 for 10 bytes a token
        ([5, 100, 7], {"size": 10_000}, 2000, 595),
        ([5, 100, 7], {"size": 10_000, "others": 3000}, 0, 495),
        ([100], {"size": 10_000}, 0, 761),  # one row shows no more than a proportion: 10.5 bytes
        ([5, 100, 7], {"size": 2500}, 0, 100),  # the longest row and no more
        ([5, 100, 7], {"size": 10**9}, 0, steps.MOST_TOKENS),
    ],
)
def test_a_batch_has_as_many_tokens_as_a_card_has_room_for(lengths, card, reserve, wanted, monkeypatch):
    rows = [SimpleNamespace(length=length) for length in lengths]
    card = Card(monkeypatch, **card)
    assert steps.tokens_that_fit(rows, card.read, reserve=reserve, device="cuda") == wanted


@pytest.mark.parametrize("held_out", [0.2, 0.9])
def test_on_a_gpu_training_measures_how_much_it_takes(held_out, steady, data, tmp_path, monkeypatch, capsys):
    """The longest row is in a pack, held out or not; with nine tenths held out it is, here."""
    flags = {"eval_fraction": held_out, "max_samples": 7 if held_out == 0.9 else 20}
    by_rows = run(train_sft, steady, data, tmp_path / "rows", micro_train_batch_size=3, **flags)
    room = 500 if held_out == 0.2 else 1
    monkeypatch.setattr(steps, "CARD", "cpu")
    monkeypatch.setattr(steps, "tokens_that_fit", lambda rows, work, **_: work(rows[:2]) and room)
    sizes = room_for(monkeypatch, 10**6)
    capsys.readouterr()
    measured = run(train_sft, steady, data, tmp_path / "card", **flags)
    said = capsys.readouterr().out
    assert "tokens in one forward pass, by the GPU's free memory" in said
    assert ("400 tokens in" in said) == (room == 500)
    assert (250 if room == 500 else 0) < max(sizes[1:]) <= 500
    for ours, theirs in zip(measured, by_rows, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)
