"""TRL learns from a critic's credit: of single turns as a reward, of whole dialogues turn by turn; and not without it."""

from types import SimpleNamespace

import pytest

from sweet_rl.records import replace_rows
from tests.integrations.credit import changed, episodes, findings, hidden, shown
from tests.tiny_models import tiny_tokenizer

pytest.importorskip("trl", reason="needs the extra `trl`")

import torch
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweet_rl.integrations.tokens import agent_turns, runs, token_rows
from sweet_rl.integrations.trl import CreditReward, Replay, TurnCreditTrainer
from sweet_rl.preferences.ranking import encoding_by

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]  # of what TRL still does


SETTINGS = {
    "per_device_train_batch_size": 4, "num_generations": 2, "learning_rate": 1e-2, "use_cpu": True, "bf16": False,
    "report_to": "none", "save_strategy": "no", "max_completion_length": 24, "beta": 0.0, "optim": "sgd",
    "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "disable_tqdm": True, "shuffle_dataset": False,
}  # fmt: skip
"""One step is a group of two for each of two prompts."""


def policy(folder):
    """The tiny policy and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "policy")
    tokenizer.pad_token = tokenizer.eos_token
    return AutoModelForCausalLM.from_pretrained(folder / "policy"), tokenizer


def trainer_of(kind, folder, output, rewards, data, *, steps=3, **more):
    model, tokenizer = policy(folder)
    more["args"] = trl.GRPOConfig(str(output), max_steps=steps, **SETTINGS)
    more["train_dataset"] = Dataset.from_list(data)
    return kind(model=model, processing_class=tokenizer, reward_funcs=rewards, **more)


def nothing(completions, **others):
    return [0.0] * len(completions)


def replayed(rows, folder, output, **more):
    """The trainer after its steps on stored dialogues, and by how much each weight has moved."""
    data = [{"prompt": task} for task in dict.fromkeys(row["task_id"] for row in rows)]
    trainer = trainer_of(TurnCreditTrainer, folder, output, nothing, data, rollout_func=Replay(rows), **more)
    before = [value.detach().clone() for value in trainer.model.parameters()]
    trainer.train()
    return trainer, [new.detach() - old for new, old in zip(trainer.model.parameters(), before, strict=True)]


def logprob(model, row, turn):
    """The mean log-probability of a stored turn."""
    ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
    start, end = (len(row["prompt_ids"]) + at for at in runs(row["env_mask"])[turn])
    with torch.no_grad():
        logps = model(ids).logits.log_softmax(-1)[0, start - 1 : end - 1].gather(1, ids[0, start:end, None])
    return logps.mean().item()


def test_three_steps_on_stored_credit_move_each_turn_its_own_way(rows, folder, tmp_path):
    trainer, _ = replayed(rows, folder, tmp_path / "out")
    assert trainer.state.global_step == 3
    start = AutoModelForCausalLM.from_pretrained(folder / "policy")
    kinds = {
        (value > 0, logprob(trainer.model, row, turn) > logprob(start, row, turn))
        for row in rows
        for turn, value in enumerate(centred_of(row, rows))
        if abs(value) > 0.2
    }
    assert kinds == {(True, True), (False, False)}


def centred_of(row, rows):
    return [row["advantages"][at] for at, _ in runs(row["env_mask"])]


def test_without_credit_nothing_moves_and_the_other_way_round_all_does(rows, folder, tmp_path):
    """Broken on purpose: zero, the same for all turns, flipped, dealt to other turns."""
    factors = {"as it is": lambda value: value, "zero": lambda value: 0.0, "alike": lambda value: 7.0}
    factors |= {"flipped": lambda value: -value, "unknown": lambda value: None}
    moved = {
        name: replayed(changed(rows, factor), folder, tmp_path / name, steps=1)[1]
        for name, factor in factors.items()
    }
    for name in ("zero", "alike", "unknown"):
        assert all(torch.equal(one, torch.zeros_like(one)) for one in moved[name]), name
    assert any(one.abs().max() > 1e-6 for one in moved["as it is"])
    for one, other in zip(moved["as it is"], moved["flipped"], strict=True):
        torch.testing.assert_close(one, -other, rtol=1e-3, atol=1e-7)
    swapped = [row | {"credit": row["credit"][::-1]} for row in rows]
    other = replayed(swapped, folder, tmp_path / "swapped", steps=1)[1]
    a, b = (torch.cat([one.flatten() for one in each]) for each in (moved["as it is"], other))
    assert torch.cosine_similarity(a, b, dim=0) < 0.5


def test_a_turn_without_a_score_is_left_out_and_others_are_not(rows, folder, tmp_path):
    data = [{"prompt": "t0"}, {"prompt": "t1"}]
    some = [rows[0] | {"credit": [None, 1.0]}, *rows[1:]]
    trainer = trainer_of(TurnCreditTrainer, folder, tmp_path, nothing, data, rollout_func=Replay(some))
    output = trainer._generate_and_score_completions([{"prompt": task} for task in ("t0", "t0", "t1", "t1")])
    (start, end), (_, last) = runs(rows[0]["env_mask"])
    mask, advantages = output["tool_mask"][0], output["advantages"][0]
    assert mask[start:end].sum() == advantages[start:end].abs().sum() == 0
    mean = (1.0 + sum(rows[1]["credit"])) / 3
    assert (mask[last - 1], advantages[last - 1]) == (1, pytest.approx(1.0 - mean))
    assert output["advantages"].shape == output["completion_ids"].shape


def test_a_critic_is_asked_about_what_was_played(rows, critic, folder, tmp_path):
    """The same advantages as those of the file, here of the tokens that a rollout gives."""
    some = episodes()
    told = {one.task.task_id: one.task.ground_truth for one in some}
    data = [{"prompt": task, "hidden": text} for task, text in told.items()]
    how = {"rollout_func": Replay(rows), "critic": critic}
    trainer = trainer_of(TurnCreditTrainer, folder, tmp_path, nothing, data, **how)
    inputs = [{"prompt": row["task_id"], "hidden": told[row["task_id"]]} for row in rows]
    output = trainer._generate_and_score_completions(inputs)
    for row, advantages, mask in zip(rows, output["advantages"], output["tool_mask"], strict=True):
        width = len(row["advantages"])
        assert advantages[:width].tolist() == pytest.approx(row["advantages"], abs=1e-5)
        assert mask[:width].tolist() == row["env_mask"]
    names = ("completion_ids", "completion_mask", "tool_mask", "advantages")
    columns = zip(*(output[name].tolist() for name in names), strict=True)
    exported = [dict(zip(names, one, strict=True)) for one in columns]
    exported = [one | {"task_id": row["task_id"]} for one, row in zip(exported, rows, strict=True)]
    assert findings(exported) == []
    exported[0]["advantages"][exported[0]["tool_mask"].index(1)] = 0.0
    assert len(findings(exported)) == 1
    trainer.train()
    assert trainer.state.global_step == 3


@pytest.mark.parametrize("conversational", [True, False])
def test_grpo_is_rewarded_by_the_credit_of_a_turn(critic, folder, tmp_path, conversational):
    some, seen = episodes(2, 1), []

    class Watched(CreditReward):
        def __call__(self, prompts, completions, completion_ids, **columns):
            rewards = super().__call__(prompts, completions, completion_ids, **columns)
            seen.append((prompts, completion_ids, rewards))
            return rewards

    first = [one.dialogue_history[:3] for one in some]
    if conversational:
        prompts = [[{"role": one.role, "content": one.content} for one in messages] for messages in first]
    else:
        prompts = [one.dialogue_history[3].input for one in some]
    data = [{"prompt": prompt, "hidden": text} for prompt, text in zip(prompts, hidden(some), strict=True)]
    trainer = trainer_of(trl.GRPOTrainer, folder, tmp_path, Watched(critic, tiny_tokenizer()), data)
    before = [value.detach().clone() for value in trainer.model.parameters()]
    trainer.train()
    assert trainer.state.global_step == 3
    assert any((new != old).any() for new, old in zip(trainer.model.parameters(), before, strict=True))
    assert [len(rewards) for *_, rewards in seen] == [4] * 3
    assert trainer.reward_func_names == ["credit"]
    asked, ids, rewards = seen[0]
    given = dict(zip(map(str, prompts), (one.dialogue_history[3].input for one in some), strict=True))
    told = dict(zip(map(str, prompts), hidden(some), strict=True))
    encoding = encoding_by(tiny_tokenizer())
    for prompt, own, reward in zip(asked, ids, rewards, strict=True):
        given_ids = encoding.encode(given[str(prompt)])
        turns = agent_turns(given_ids, own, [1] * len(own), encoding)
        assert turns[0].input == given[str(prompt)]
        assert reward == pytest.approx(critic.credit(told[str(prompt)], turns)[0], abs=1e-4)


def test_what_the_page_shows_trains(rows, critic, folder, tmp_path):
    some = episodes(2, 1)
    asked = [[{"role": "user", "content": one.dialogue_history[0].content}] for one in some]
    turns = Dataset.from_dict({"prompt": asked, "hidden": hidden(some)})
    settings = SETTINGS | {"output_dir": str(tmp_path), "max_steps": 3}
    replace_rows(tmp_path / "rows.jsonl", rows)
    for trained in (
        shown("turns.py")["train"](*policy(folder), turns, critic, **settings),
        shown("dialogues.py")["train"](*policy(folder), tmp_path / "rows.jsonl", **settings),
    ):
        assert trained.state.global_step == 3
        start = policy(folder)[0].parameters()
        assert any((new != old).any() for new, old in zip(trained.model.parameters(), start, strict=True))


def test_a_reward_without_a_score_is_none(critic):
    reward = CreditReward(critic, tiny_tokenizer())
    long, short = ([{"role": "assistant", "content": text}] for text in ("no " * 600, "a"))
    prompt = [{"role": "user", "content": "So?"}]
    found = reward([prompt, prompt], [long, short], [[5] * 900, [5]], hidden=["7", "7"])
    assert found[0] is None and isinstance(found[1], float)
    with pytest.raises(TypeError, match="hidden"):
        reward([prompt], [long], [[5]])


def test_stored_dialogues_come_in_turn(rows):
    replay, trainer = Replay(rows), SimpleNamespace()
    first = replay(["t0", "t0", "t1"], trainer)
    assert first["credit"] == [row["credit"] for row in rows[:3]]
    assert replay(["t0"], trainer)["completion_ids"] == [rows[0]["completion_ids"]]
    assert replay(["t1"], trainer)["logprobs"] == [rows[3]["logprobs"]]
    assert Replay([rows[0] | {"logprobs": None}])(["t0"], trainer)["logprobs"] is None
    assert token_rows(episodes()[0], tiny_tokenizer())[0].mask == first["env_mask"][0]
