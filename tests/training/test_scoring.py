"""The scorer against one plain forward pass for each candidate."""

import json
import random

import pytest
import torch
from safetensors.torch import save_file

from sweet_rl.commands.train import train_dpo
from sweet_rl.errors import UsageError
from sweet_rl.training import runs
from sweet_rl.training.batches import Reader
from sweet_rl.training.checkpoints import weights_digest
from sweet_rl.training.scoring import CandidateScorer
from tests.tiny_models import save_tiny_gpt2, save_tiny_llama, tiny_tokenizer
from tests.training.pairs import dialogue_pairs, write_pairs


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("scorers")
    return {"llama": save_tiny_llama(folder / "llama"), "gpt2": save_tiny_gpt2(folder / "gpt2")}


@pytest.fixture(scope="module")
def work():
    """Contexts and candidates of many lengths; repeated candidates, a repeated context, a row without any."""
    draw = random.Random(0)

    def ids(low, high):
        return [draw.randrange(300) for _ in range(draw.randint(low, high))]

    contexts = [ids(1, 60) for _ in range(9)]
    candidates = [[ids(1, 12) for _ in range(draw.randint(1, 6))] for _ in contexts]
    candidates[3] += candidates[3][:1]
    contexts += [contexts[0], ids(5, 5)]
    candidates += [[candidates[0][0], [7]], []]
    return contexts, candidates


def plain(model, context, candidate):
    with torch.inference_mode():
        logits_TV = model(torch.tensor([[*context, *candidate]])).logits[0, len(context) - 1 : -1]
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(candidate)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("max_batch_tokens", [1, 150, 32768])
def test_log_probabilities_are_those_of_a_plain_pass(folders, work, name, max_batch_tokens):
    scorer = CandidateScorer(folders[name], max_batch_tokens=max_batch_tokens)
    scores = scorer.score(*work)
    for context, row, values in zip(*work, scores, strict=True):
        assert len(values) == len(row)
        for candidate, value in zip(row, values, strict=True):
            assert value == pytest.approx(plain(scorer._model, context, candidate), abs=1e-4)


@pytest.fixture
def shapes(monkeypatch):
    """Rows, length and distinct tokens of every pass."""
    seen = []
    ask = Reader.ask

    def spy(self, *arguments):
        question, places = ask(self, *arguments)
        seen.append((*question["ids_RT"].shape, int(question.get("ends_RT", torch.ones(0)).count_nonzero())))
        return question, places

    monkeypatch.setattr(Reader, "ask", spy)
    return seen


def test_the_budget_bounds_what_one_pass_holds(folders, work, shapes):
    CandidateScorer(folders["llama"], max_batch_tokens=150).score(*work)
    assert len(shapes) > 3
    assert max(tokens for *_, tokens in shapes) <= 150


def test_what_candidates_share_is_computed_once(folders, shapes):
    scorer = CandidateScorer(folders["llama"])
    first, second = scorer.score([[1, 2, 3]] * 2, [[[4, 5], [4, 5], [6, 7]], [[4, 5]]])
    assert shapes == [(1, 5, 5)]  # the context and the first token of two candidates
    assert first[0] == first[1] == second[0]


def test_a_regression_head_gives_its_value_at_the_last_token(folders, work, tmp_path):
    from transformers import AutoModelForCausalLM, LlamaForSequenceClassification

    config = AutoModelForCausalLM.from_pretrained(folders["llama"]).config
    config.num_labels = 1
    torch.manual_seed(1)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    scorer = CandidateScorer(tmp_path, max_batch_tokens=200)
    assert scorer.has_value_head
    model = scorer._model
    for context, row, values in zip(*work, scorer.score(*work), strict=True):
        for candidate, value in zip(row, values, strict=True):
            with torch.inference_mode():
                hidden_TH = model.model(torch.tensor([[*context, *candidate]])).last_hidden_state[0]
                expected = model.score(hidden_TH[-1]).item()
            assert value == pytest.approx([expected], abs=1e-4)


def test_a_score_that_nobody_wants_ends_after_its_batch(folders, work):
    scorer = CandidateScorer(folders["llama"], max_batch_tokens=1)
    scorer.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        scorer.score(*work)


def test_wrong_input_is_named(folders, tmp_path):
    scorer = CandidateScorer(folders["llama"])
    with pytest.raises(ValueError, match="no tokens"):
        scorer.score([[1]], [[[]]])
    with pytest.raises(ValueError, match="no tokens"):
        scorer.score([[]], [[[1]]])
    with pytest.raises(UsageError, match=r"No model could be loaded from .*config\.json"):
        CandidateScorer(tmp_path)
    with pytest.raises(UsageError, match="dtype must be"):
        CandidateScorer(folders["llama"], dtype="float17")
    with pytest.raises(UsageError, match=r"--device must be auto.*got 'gpu'"):
        CandidateScorer(folders["llama"], device="gpu")
    with pytest.raises(UsageError, match="max_batch_tokens"):
        CandidateScorer(folders["llama"], max_batch_tokens=0)


def test_the_references_numbers_are_kept_for_the_same_pairs_and_model(steady, tmp_path, monkeypatch):
    data, asked, ask = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(8)), [], runs._scores
    monkeypatch.setattr(runs, "_scores", lambda *given, **more: asked.append(1) or ask(*given, **more))

    def run(name, **flags):
        flags |= {"eval_fraction": 0, "quiet": True, "train_batch_size": 4, "learning_rate": 1e-3}
        train_dpo(str(steady), str(data), save_path=str(tmp_path / name), **flags)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    first = run("one", reference_cache=str(tmp_path / "kept"))
    assert run("two", reference_cache=str(tmp_path / "kept")) == first
    assert len(asked) == 1
    run("turns", reference_cache=str(tmp_path / "kept"), mean_log_prob="turn")
    run("off", reference_cache="none")
    assert (len(asked), len(list((tmp_path / "kept").iterdir()))) == (3, 2)


def test_numbers_that_are_damaged_of_another_model_or_not_finite_are_refused(tmp_path):
    path, identity = tmp_path / "kept.safetensors", {"model": "m", "data": "d"}
    assert runs._kept(path, identity) is None
    path.write_bytes(b"not a tensor")
    with pytest.raises(UsageError, match="is damaged"):
        runs._kept(path, identity)
    save_file({"logps": torch.ones(2, 3)}, path, metadata=identity)
    assert runs._kept(path, identity).equal(torch.ones(2, 3))
    with pytest.raises(UsageError, match=r"was made with another model\. Delete it"):
        runs._kept(path, identity | {"model": "other"})
    save_file({"logps": torch.full((2, 3), torch.nan)}, path, metadata=identity)
    with pytest.raises(UsageError, match="not finite"):
        runs._kept(path, identity)
    assert weights_digest(str(tmp_path / "none")) is weights_digest("nobody/has-this-model") is None
