"""Fine-tuning on texts: what is imitated, whose texts they are, and going on."""

import json

import pytest
import torch

from sweet_rl.chat import load_tokenizer
from sweet_rl.errors import DataError, NonFiniteError, UsageError
from sweet_rl.online.reflect.agent import Example
from sweet_rl.online.reflect.models import Checkpoints, load_policy
from sweet_rl.online.reflect.sft import FineTuning, Order, check_kind, encode, encode_published, read_texts
from tests.online.reflect import taxi
from tests.online.reflect.tiny import golden

ACTION, ANALYSE = " # Action:\n", " # Analyze:\n"


@pytest.fixture(scope="module")
def tokenizer(model):
    return load_tokenizer(model)


def test_what_is_trained_is_what_was_recorded(shared, tokenizer):
    for case in golden(shared, "sft_collator")["cases"]:
        reflect = case["template"] == ANALYSE
        found = encode_published(tokenizer, case["text"], reflect=reflect, room=1000)
        written = "" if found is None else tokenizer.decode(found.target_ids)
        assert written == "".join(case["unmasked_tokens"])
        if found is not None:
            ours = encode(tokenizer, case["text"], reflect=reflect, room=1000)
            # What is published goes on after a reflection; ours learns where one ends.
            end = tokenizer.eos_token if reflect else ""
            assert tokenizer.decode(ours.target_ids) == written + end
            assert tokenizer.decode(ours.prompt_ids) + written == case["text"]


def test_a_long_text_loses_its_beginning(tokenizer):
    found = encode(tokenizer, f"x\n{'word ' * 50}{ACTION}3", reflect=False, room=20)
    assert len(found.prompt_ids) + len(found.target_ids) == 20
    assert tokenizer.decode(found.prompt_ids).endswith(ACTION)
    assert tokenizer.decode(found.target_ids) == "3"


@pytest.mark.parametrize(
    ("text", "reflect", "message"),
    [
        (f"state{ANALYSE}look left", False, "line 2.*ends in a reflection.*Add --reflect"),
        (f"state{ANALYSE}look{ACTION}1", True, "line 2.*Leave --reflect out"),
        ("state", False, "line 2.*no action marker"),
        ("state", True, "line 2.*does not end in a reflection"),
    ],
)
def test_texts_of_the_other_model_are_refused(text, reflect, message):
    good = f"state{ANALYSE}go" if reflect else f"state{ACTION}1"
    check_kind([good], "f.jsonl", reflect=reflect)
    with pytest.raises(DataError, match=message):
        check_kind([good, text], "f.jsonl", reflect=reflect)


def test_a_file_of_texts(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}')
    assert read_texts(path) == ["a", "b"]
    path.write_text('{"text": "a"}\n{"text": 3}')
    with pytest.raises(DataError, match="line 2"):
        read_texts(path)
    with pytest.raises(UsageError, match="is no file"):
        read_texts(tmp_path / "b.jsonl")


def test_every_pass_sees_every_row():
    order = Order([1] * 6, batch=3, seed=0)
    passes = [order.rows(0) + order.rows(1), order.rows(2) + order.rows(3)]
    assert [sorted(rows) for rows in passes] == [list(range(6))] * 2
    assert passes[0] != passes[1]
    alike = Order([1, 9, 1, 9, 1, 9], batch=3, seed=0, by_length=True)
    assert sorted(alike.rows(0)) == [1, 3, 5]


TEXTS = [f"where {number}{ACTION}{number % 3}" for number in range(7)]


def fine_tuning(model, folder, **changed):
    usual = {
        "shrink_head": False, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "learning_rate": 5e-3,
        "logging_steps": 1, "optim": "adamw_torch", "gradient_checkpointing": False, "max_steps": 6, "save_steps": 2,
    }  # fmt: skip
    flags = taxi.settings(model, **usual | changed)
    agent = load_policy(flags, (), lambda _: None)
    examples = [encode(agent.tokenizer, text, reflect=False, room=100) for text in TEXTS]
    kept = None if folder is None else Checkpoints(folder, flags.save_total_limit)
    return FineTuning(agent, examples, flags, kept, say=lambda _: None)


def test_labels_are_learnt_and_a_run_goes_on_where_it_was(tmp_path, model):
    whole = fine_tuning(model, tmp_path, save_total_limit=2)
    whole.run()
    losses = [entry["loss"] for entry in whole._log]
    assert losses[-1] < losses[0] - 0.5
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-6"]
    log = json.loads((tmp_path / "checkpoint-6" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in log["log_history"]] == [1, 2, 3, 4, 5, 6]

    folder = tmp_path / "stopped"
    folder.mkdir()
    fine_tuning(model, folder, max_steps=4).run()
    rest = fine_tuning(model, folder)
    rest.load(state := Checkpoints(folder).newest())
    assert state["done"] == 4
    rest.run(4)
    assert rest._log == whole._log
    assert all(map(torch.equal, rest._parameters, whole._parameters))


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(model):
    run = fine_tuning(model, None, task_file="texts.jsonl")
    run._parameters[0].register_hook(lambda grad: grad * (torch.nan if run._guard._last else 1))
    told = r"Update 2 of the model .* Before: update 1: loss .* Its rows: the texts \d.* of texts\.jsonl\."
    with pytest.raises(NonFiniteError, match=told):
        run.run()
    assert all(parameter.isfinite().all() for parameter in run._parameters)


def test_the_loss_is_a_mean_over_tokens_and_published_a_mean_of_means(model):
    """Recomputing activations changes nothing; an optimizer that there is not is refused."""
    ours, published = (fine_tuning(model, None, compat=compat) for compat in ("fixed", "published"))
    recomputed = fine_tuning(model, None, gradient_checkpointing=True)
    assert ours._update(0) == pytest.approx(recomputed._update(0), rel=1e-5)
    for lengths, right, as_published in (
        ((1, 3, 2, 2), [1 / 8] * 4, [1 / 8] * 4),
        ((1, 1, 5, 5), [1 / 12] * 4, [1 / 4, 1 / 4, 1 / 20, 1 / 20]),
    ):
        for run, expected in ((ours, right), (published, as_published)):
            run._examples = [Example((1,), (2,) * n) for n in lengths]
            assert run._scales([0, 1, 2, 3]) == pytest.approx(expected)
    with pytest.raises(UsageError, match="--optim must be one of"):
        fine_tuning(model, None, optim="lion")


def test_the_loss_is_that_of_the_whole_model(model):
    run = fine_tuning(model, None, disable_dropout=True)
    total, tokens = 0.0, 0
    for row in run._order.rows(0):
        example = run._examples[row]
        ids, begin = torch.tensor([[*example.prompt_ids, *example.target_ids]]), len(example.prompt_ids)
        with torch.no_grad():
            logps = run.agent.model(input_ids=ids).logits[0].log_softmax(-1)
        total -= sum(logps[at - 1, token].item() for at, token in enumerate(example.target_ids, begin))
        tokens += len(example.target_ids)
    assert run._update(0) == pytest.approx(total / tokens, rel=1e-5)
