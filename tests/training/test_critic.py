"""The critic with a regression head: its values by hand, its training, and its use in ranking."""

import json

import pytest

from sweet_rl.commands.rank_best_of_n import rank_best_of_n
from sweet_rl.commands.train_sft import train_reward_model
from tests.training.pairs import dialogue_pairs, turn, write_pairs

RECIPE = {"train_batch_size": 8, "learning_rate": 1e-3, "eval_fraction": 0.0, "quiet": True}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The chosen side is always the longer one: something that a critic can learn."""
    rows = [{side: row[side] for side in ("chosen", "rejected")} for row in dialogue_pairs(24)]
    rows = [dict(zip(row, sorted(row.values(), key=len, reverse=True), strict=True)) for row in rows]
    return write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", rows)


def run(model, pairs, folder, **flags):
    recipe = RECIPE | {"ckpt_path": str(folder / "checkpoints")} | flags
    train_reward_model(str(model), str(pairs), save_path=str(folder / "out"), **recipe)
    return [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]


class Identity:
    """A model whose value at a position is the token's id; its own output is of no use."""

    def __init__(self):
        import torch

        self.score = torch.nn.Identity()

    def __call__(self, input_ids, **options):
        self.options = options
        return self.score(input_ids[..., None].float())


def test_the_value_at_the_last_token_and_the_published_mean_by_hand():
    import torch

    from sweet_rl.training.forward import ValueForward

    ids = torch.tensor([[3, 5, 7], [2, 9, 9]])  # the second text is [2, 9]; its padding is 9, too
    attention = torch.tensor([[1, 1, 1], [1, 1, 0]])
    model = Identity()
    assert ValueForward(model)(model, ids, attention).tolist() == [7, 9]
    model = Identity()
    values = ValueForward(model, mean=True)(model, ids, attention)
    assert values.tolist() == pytest.approx([5, 20 / 3])  # padding included
    assert model.options["position_ids"].tolist() == [[0, 1, 2], [0, 1, 1]]


def test_both_losses_by_hand():
    import torch

    from sweet_rl.training.losses import value_losses
    from sweet_rl.training.settings import LossSettings

    chosen, rejected = torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0])
    for loss in ("sigmoid", "logexp"):
        settings = LossSettings(name=loss, beta=1.0)
        assert value_losses(chosen, rejected, settings).tolist() == pytest.approx([0.3132617, 0.6931472])


def test_a_new_head_is_small_and_an_old_one_stays(steady, tmp_path):
    from sweet_rl.training.models import load_critic
    from sweet_rl.training.settings import ModelSettings

    critic = load_critic(str(steady), ModelSettings(pretrain=str(steady)))
    assert 0.5 / 33 < critic.score.weight.std() < 1.5 / 33
    critic.save_pretrained(tmp_path)
    again = load_critic(str(tmp_path), ModelSettings(pretrain=str(tmp_path)))
    assert again.score.weight.equal(critic.score.weight)


def test_it_learns_whatever_the_micro_batch_and_ranks(steady, pairs, tmp_path):
    """Each row of the ranked file has the value at the last token of dialogue and candidate."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    runs = [
        run(
            steady,
            pairs,
            tmp_path / str(micro),
            max_epochs=6,
            learning_rate=3e-3,
            micro_train_batch_size=micro,
            eval_fraction=0.1,
        )
        for micro in (1, 3)
    ]
    for ours, theirs in zip(*runs, strict=True):
        for name in {"loss", "grad_norm", "eval_loss", "chosen_reward"} & set(ours):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-5)
    assert runs[0][-2]["loss"] < 0.5
    assert runs[0][0]["loss"] > 0.6

    prompt = f"<|begin|>{turn('user', 'What?')}<|header|>assistant<|end_header|>\n\n"
    candidates = ["It is zero.", "no"]
    row = {"input": prompt, "input_with_ground_truth": "In light that the final answer is: zero." + prompt}
    row |= {"messages": [{"role": "assistant", "content": "x"}], "reward": 0, "ground_truth": "zero"}
    row |= {"older_output": "x", "additional_outputs": candidates, "end_token": "<|end_turn|>"}
    row |= {"additional_reference_logprobs": [-1.0, -1.0], "additional_reference_logprobs_sum": [-2.0, -2.0]}
    sampled = write_pairs(tmp_path / "sampled.jsonl", [row])
    folder = tmp_path / "1/out"
    rank_best_of_n(sampled, tmp_path / "ranked.jsonl", str(folder), quiet=True)
    (ranked,) = [json.loads(line) for line in (tmp_path / "ranked.jsonl").read_text().splitlines()]
    critic = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, score in zip(candidates, ranked["judge_result"], strict=True):
        whole = row["input_with_ground_truth"], text + "<|end_turn|>"
        ids = [i for part in whole for i in tokenizer(part, add_special_tokens=False).input_ids]
        with torch.inference_mode():
            value = critic.score(critic.model(torch.tensor([ids])).last_hidden_state[0, -1])
        assert score == pytest.approx(value.item(), abs=1e-5)


def test_the_published_mean_is_what_its_ranking_takes(steady, pairs, tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification

    from sweet_rl.training.scoring import CandidateScorer

    lines = run(steady, pairs, tmp_path, compat="published", loss="logexp", train_batch_size=24)
    assert len(lines) == 1
    critic = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    with torch.inference_mode():
        value = critic.score(critic.model(torch.tensor([[5, 6, 7, 8]])).last_hidden_state[0]).mean()
    scores = CandidateScorer(tmp_path / "out").score([[5, 6]], [[[7, 8], [9]]])
    assert scores[0][0] == [pytest.approx(value.item(), abs=1e-5)]


def test_an_adapter_trains_the_head_too(steady, pairs, tmp_path):
    from safetensors.torch import load_file

    flags = {"lora_rank": 2, "target_modules": "q_proj", "max_epochs": 1}
    run(steady, pairs, tmp_path / "one", learning_rate=1e-2, **flags)
    run(steady, pairs, tmp_path / "none", learning_rate=0.0, **flags)
    after, before = (load_file(tmp_path / name / "out/model.safetensors") for name in ("one", "none"))
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed == {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)} | {"score.weight"}
