"""The critic's score of every turn: by hand, resumed, on files without log-probabilities, and from Python."""

import asyncio
import itertools
import json
import shutil
import time
from types import SimpleNamespace

import pytest
import torch

import sweet_rl
from sweet_rl.chat import EMBEDDED, model_path, tokenizer_digest
from sweet_rl.credit.commands import score
from sweet_rl.credit.methods import Asked, judge
from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.online.losses import advantages
from sweet_rl.online.models import load_archer_critic
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.preferences.candidates import Candidate, Candidates, offline_turns, sampled_row
from sweet_rl.preferences.credit import own_turns, turn_digest
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.records import load_trajectories, read_rows, replace_rows, trajectory_to_row
from sweet_rl.training.checkpoints import load_state
from sweet_rl.types import Completion, FinishReason, Message
from sweet_rl.worlds import world_of
from tests.commands.test_run_archer import debug
from tests.commands.test_step_stages import plain_mean, rows_of, trajectories
from tests.integrations.test_credit_tokens import other_tokenizer
from tests.stub_server import model_server, said
from tests.tiny_models import tiny_tokenizer


def recorded_rows(count=3):
    """As our simulations write them: with the sampler's token ids and log-probabilities."""
    tokenizer = tiny_tokenizer()
    for row in trajectories(count):
        for message in row["dialogue_history"]:
            if message["role"] == "assistant":
                ids = tokenizer(message["output"], add_special_tokens=False)["input_ids"]
                message["token_ids"] = [*ids, tokenizer.eos_token_id]
                message["logprobs"] = [-0.5] * len(message["token_ids"])
        yield row


@pytest.fixture
def saved(tmp_path):
    replace_rows(tmp_path / "run.jsonl", recorded_rows())
    return tmp_path / "run.jsonl"


def test_scores_by_hand_beside_the_file_that_stays_as_it_is(models, saved, capsys):
    before = saved.read_bytes()
    score(saved, critic=models["critic"], quiet=True)
    assert saved.read_bytes() == before
    rows = rows_of(saved.with_name("run.credit.critic.jsonl"))
    assert [row["turn_index"] for row in rows] == [0, 1] * 3
    trajectory = load_trajectories(saved)[1]
    turn = [one for one in trajectory.dialogue_history if one.role == "assistant"][1]
    row = rows[3]
    assert (row["task_id"], row["sample_index"]) == trajectory.key
    for name, context in (
        ("hidden", with_solution(turn.input, trajectory.task.ground_truth)),
        ("without_hidden", turn.input),
    ):
        critic = plain_mean(models["critic"], context, list(turn.token_ids))
        assert row[name]["critic"] == pytest.approx(critic, abs=1e-4)
        assert row[name]["reference"] == -0.5
        assert row[name]["advantage"] == pytest.approx(critic + 0.5, abs=1e-4)
    assert row["credit"]["critic"].startswith("sha256:")
    assert row["scores"] == {"sweet": row["hidden"]["advantage"], "blind": row["without_hidden"]["advantage"]}
    assert "sweet: 6 scores, mean " in capsys.readouterr().out


def test_a_critic_is_compared_with_the_model_that_it_was_trained_from(models, saved, tmp_path, capsys):
    """A trained agent likes what it says: compared with its own log-probabilities every turn would seem bad."""
    critic = tmp_path / "trained"
    shutil.copytree(models["critic"], critic)
    shutil.copytree(models["policy"], tmp_path / "base")
    record = {"id": "1", "stage": "train_dpo", "status": "finished", "sessions": []}
    record |= {"folder": str(tmp_path), "settings": {"pretrain": "base"}}
    (critic / "run.json").write_text(json.dumps(record))
    score(saved, critic=str(critic), hidden=True, quiet=True)
    assert f"is compared with {tmp_path / 'base'}." in capsys.readouterr().out
    row = rows_of(saved.with_name("run.credit.trained.jsonl"))[3]
    turn = [one for one in load_trajectories(saved)[1].dialogue_history if one.role == "assistant"][1]
    base = plain_mean(models["policy"], turn.input, list(turn.token_ids))
    assert row["hidden"]["reference"] == pytest.approx(base, abs=1e-4)
    (found, *_) = sweet_rl.credit(load_trajectories(saved)[1:2], critic, without_hidden=False)
    assert found[1].hidden.advantage == pytest.approx(row["hidden"]["advantage"], abs=1e-5)
    flags = {"reference_model": models["critic"], "overwrite": True}
    score(saved, critic=str(critic), hidden=True, quiet=True, **flags)
    assert f"is compared with {models['critic']}." in capsys.readouterr().out


def test_only_one_way_and_what_python_gives_are_the_same(models, saved):
    score(saved, critic=models["critic"], hidden=True, quiet=True)
    rows = rows_of(saved.with_name("run.credit.critic.jsonl"))
    assert all("without_hidden" not in row for row in rows)
    found = sweet_rl.credit(load_trajectories(saved), models["critic"], without_hidden=False)
    assert [len(turns) for turns in found] == [2, 2, 2]
    flat = [one for turns in found for one in turns]
    scores = [row["hidden"]["advantage"] for row in rows]
    assert [one.hidden.advantage for one in flat] == pytest.approx(scores, abs=1e-5)
    assert [one.turn_digest for one in flat] == [row["turn_digest"] for row in rows]


def test_a_run_is_resumed_by_turn_and_never_with_another_critic(models, saved):
    output = saved.with_name("run.credit.critic.jsonl")
    score(saved, critic=models["critic"], quiet=True)
    whole = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(whole[4] + whole[1] + whole[2][:40])  # out of order, the last line torn
    with pytest.raises(UsageError, match="already holds a run"):
        score(saved, critic=models["critic"], quiet=True)
    score(saved, critic=models["critic"], to_continue=True, save_steps=2, quiet=True)
    again = output.read_bytes().splitlines(keepends=True)
    assert again[1] == whole[1]
    scores = [[json.loads(line)["hidden"]["advantage"] for line in lines] for lines in (again, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    with pytest.raises(UsageError, match="critic was 'sha256:"):
        score(saved, critic=models["policy"], output_path=output, to_continue=True, quiet=True)
    rows = rows_of(saved)
    rows[0]["dialogue_history"][1]["output"] = "Another?"
    replace_rows(saved, rows)
    with pytest.raises(UsageError, match="turn that is not among yours"):
        score(saved, critic=models["critic"], to_continue=True, quiet=True)


def test_without_log_probabilities_a_reference_is_asked_for_and_computed(models, tmp_path):
    saved, output = tmp_path / "served.jsonl", tmp_path / "out.jsonl"
    replace_rows(saved, trajectories(2))
    with pytest.raises(UsageError, match="Pass --reference_model"):
        score(saved, critic=models["critic"], output_path=output, quiet=True)
    flags = {"output_path": output, "reference_model": models["policy"], "quiet": True, "overwrite": True}
    score(saved, critic=models["critic"], **flags)
    row, turn = rows_of(output)[0], rows_of(saved)[0]["dialogue_history"][1]
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer(turn["output"], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    reference = plain_mean(models["policy"], turn["input"], ids)
    assert row["hidden"]["reference"] == pytest.approx(reference, abs=1e-4)
    score(saved, critic=models["critic"], advantage="paper", **flags)
    solution = rows_of(saved)[0]["task"]["ground_truth"]
    knowing = plain_mean(models["policy"], with_solution(turn["input"], solution), ids)
    row = rows_of(output)[0]
    assert row["hidden"]["reference"] == pytest.approx(knowing, abs=1e-4)
    assert row["without_hidden"]["reference"] == pytest.approx(reference, abs=1e-4)
    with pytest.raises(UsageError, match="--advantage paper needs --reference_model"):
        score(saved, critic=models["critic"], advantage="paper")


def test_a_turn_without_a_score_says_why(models, tmp_path, capsys):
    rows = list(recorded_rows(4))
    del rows[0]["dialogue_history"][1]["input"]  # a published row may have no prompt
    rows[1]["dialogue_history"][1] |= {"output": "", "token_ids": []}
    rows[2]["dialogue_history"][1]["output"] = rows[2]["dialogue_history"][1]["input"] * 40
    del rows[3]["dialogue_history"][1]["logprobs"]
    saved = tmp_path / "odd.jsonl"
    replace_rows(saved, rows)
    score(saved, critic=models["critic"], quiet=True)
    found = rows_of(tmp_path / "odd.credit.critic.jsonl")
    why = [row["hidden"].get("why") for row in found[::2]]
    assert why == ["no_prompt", "no_tokens", "too_long", "no_reference"]
    assert [row["hidden"]["advantage"] for row in found[::2]] == [None] * 4
    assert found[6]["hidden"]["critic"] < 0
    said = capsys.readouterr().out
    assert "sweet: 4 scores" in said
    assert "1 have none: the file has no prompt of this turn." in said


def test_a_trajectory_that_is_there_twice_is_named(models, tmp_path):
    row = next(recorded_rows(1)) | {"task_id": "a", "sample_index": 0}
    replace_rows(tmp_path / "twice.jsonl", [row, row])
    with pytest.raises(DataError, match=r"line 2.*Delete this line or line 1"):
        score(tmp_path / "twice.jsonl", critic=models["critic"], quiet=True)


def scored(saved, methods, **flags):
    """Rows by turn of a run with these methods."""
    output = saved.with_name("scores.jsonl")
    score(saved, methods=methods, output_path=output, quiet=True, overwrite=True, **flags)
    return {(row["task_id"], row["sample_index"], row["turn_index"]): row for row in rows_of(output)}


def total(folder, context, ids):
    return plain_mean(folder, context, ids) * len(ids)


def test_methods_that_read_by_hand(models, saved):
    """Turn 0 of the second dialogue; its reply is "This.", its following turn "What 1?"."""
    agent, tokenizer = models["policy"], tiny_tokenizer()
    every = [load_trajectories(saved)[number] for number in (1, 0, 2)]
    turn, following = [one for one in every[0].dialogue_history if one.role == "assistant"]
    names = "trace,infopo,privileged,privileged_other,sweet,sweet_paper,blind"
    flags = {"agent": agent, "critic": models["critic"], "reference_model": agent}
    row = scored(saved, names, **flags)[(*every[0].key, 0)]
    solution, ids = every[0].task.ground_truth, list(turn.token_ids)
    answer = tokenizer(solution, add_special_tokens=False)["input_ids"]
    masked = following.input.replace("This.", "No information found.")
    told, alone = with_solution(turn.input, solution), turn.input
    others = [total(agent, with_solution(alone, one.task.ground_truth), ids) for one in every[1:]]
    wanted = {
        "trace": plain_mean(agent, following.input, answer) - plain_mean(agent, alone, answer),
        "infopo": plain_mean(agent, following.input, list(following.token_ids))
        - plain_mean(agent, masked, list(following.token_ids)),
        "privileged": total(agent, told, ids) - total(agent, alone, ids),
        "sweet": plain_mean(models["critic"], told, ids) - plain_mean(agent, alone, ids),
        "sweet_paper": plain_mean(models["critic"], told, ids) - plain_mean(agent, told, ids),
        "blind": plain_mean(models["critic"], alone, ids) - plain_mean(agent, alone, ids),
    }
    other = row["scores"].pop("privileged_other")
    assert row["scores"] == pytest.approx(wanted, abs=1e-3)
    assert min(abs(other + total(agent, alone, ids) - one) for one in others) < 1e-3
    long, short = (len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (told, alone))
    assert row["cost"]["privileged"] == long + short + 2 * len(ids)
    assert row["cost"]["blind"] == 2 * (short + len(ids))  # by critic and reference
    last = scored(saved, names, **flags)[(*every[0].key, 1)]
    assert last["why"] == {"trace": "no_reply", "infopo": "no_reply"}
    assert last["scores"]["trace"] is None
    assert row["hidden"]["advantage"] == row["scores"]["sweet"]


def repeats(tmp_path, rewards=(1.0, 0.0, None)):
    """Repeats of one task with these outcomes, and a task that was played once."""
    known = [("a", n, reward) for n, reward in enumerate(rewards)] + [("b", 0, 1.0)]
    rows = [dict(next(recorded_rows(1)), task_id=t, sample_index=n, reward=r) for t, n, r in known]
    replace_rows(tmp_path / "repeats.jsonl", rows)
    return tmp_path / "repeats.jsonl"


def test_groups_are_the_repeats_of_a_task_that_have_a_reward(tmp_path, capsys):
    found = scored(repeats(tmp_path), "outcome,gigpo")
    assert [found["a", n, 0]["scores"]["outcome"] for n in range(3)] == [0.5, -0.5, None]
    # both turns were taken in the same states: the return less its mean once more
    assert [found["a", n, 1]["scores"]["gigpo"] for n in range(3)] == [1.0, -1.0, None]
    assert found["a", 2, 0]["why"] == {"outcome": "no_reward", "gigpo": "no_reward"}
    assert found["b", 0, 1]["why"] == {"outcome": "one_repeat", "gigpo": "one_repeat"}
    assert found["a", 0, 0]["cost"] == {"outcome": 0, "gigpo": 0}
    assert "2 have none: the task was played only once" in capsys.readouterr().out


def test_a_world_that_rewards_turns_is_read_by_turns(tmp_path):
    rows = [
        dict(next(recorded_rows(1)), task_id="a", sample_index=n, reward=r) for n, r in enumerate((3.0, 1.0))
    ]
    for row, rewards in zip(rows, ((1.0, 2.0), (0.0, 1.0)), strict=True):
        turns = [one for one in row["dialogue_history"] if one["role"] == "assistant"]
        for one, reward in zip(turns, rewards, strict=True):
            one["reward"] = reward
    replace_rows(tmp_path / "turns.jsonl", rows)
    found = scored(tmp_path / "turns.jsonl", "mt_grpo", gamma=0.5)
    # returns 1 + 2/2 and 2, 0 + 1/2 and 1
    scores = [found["a", n, t]["scores"]["mt_grpo"] for n in range(2) for t in range(2)]
    assert scores == [0.75, 0.5, -0.75, -0.5]


def candidates(saved, tmp_path):
    """As sample_best_of_n writes them: two candidates for the first dialogue's second turn."""
    (turn, *_), rows = offline_turns([*read_rows(saved)])[1:], []
    for text in ("What 1?", "Nothing at all."):
        ids = [*tiny_tokenizer()(text, add_special_tokens=False)["input_ids"], tiny_tokenizer().eos_token_id]
        rows.append(Completion(text, tuple(ids), (-0.5,) * len(ids), FinishReason.STOP))
    row = sampled_row(
        turn, rows, tokenizer=tokenizer_digest(tiny_tokenizer()), end_token="<|end_turn|>", settings={}
    )
    replace_rows(tmp_path / "sampled.jsonl", [row])
    return tmp_path / "sampled.jsonl", turn


def test_candidates_that_were_not_taken_are_scored_by_what_can(models, saved, tmp_path):
    path, turn = candidates(saved, tmp_path)
    named = {"critic": models["critic"], "agent": models["policy"]}
    ((key, row),) = scored(path, "outcome,trace,sweet,privileged", **named).items()
    assert key == turn.key
    for place, text in enumerate(("What 1?", "Nothing at all.")):
        ids = [*tiny_tokenizer()(text, add_special_tokens=False)["input_ids"], tiny_tokenizer().eos_token_id]
        told = with_solution(turn.prompt, turn.row["ground_truth"])
        assert row["scores"]["sweet"][place] == pytest.approx(
            plain_mean(models["critic"], told, ids) + 0.5, abs=1e-4
        )
        wanted = total(models["policy"], told, ids) - total(models["policy"], turn.prompt, ids)
        assert row["scores"]["privileged"][place] == pytest.approx(wanted, abs=1e-3)
    assert row["scores"]["trace"] == row["scores"]["outcome"] == [None, None]
    assert row["why"] == {"outcome": "not_taken", "trace": "not_taken"}
    assert row["turn_digest"] == turn_digest(turn.prompt, "What 1?", "Nothing at all.")
    assert "hidden" not in row


def test_a_judge_behind_a_server_gives_numbers(saved, tmp_path):
    replies = itertools.cycle(["It asks for what is missing.\nSCORE: 7.5", "I cannot say.", "score: **10**"])
    with model_server(lambda body: said(next(replies))) as (url, asked):
        found = scored(saved, "judge", judge="m", judge_base_url=url)
    values = sorted((row["scores"]["judge"] for row in found.values()), key=str)
    assert values == [10.0, 10.0, 7.5, 7.5, None, None]
    assert {why for row in found.values() for why in row["why"].values()} == {"no_number"}
    prompts = [body["messages"][0]["content"] for _, body in asked]  # in the order in which they arrived
    (prompt,) = [one for one in prompts if "Write 0." in one and "next turn:\nWhat 0?" in one]
    assert "def f(): return 0" in prompt
    assert {row["cost"]["judge"] for row in found.values()} == {12}  # 5 and 7 tokens a reply
    with model_server(lambda body: (500, {})) as (url, _), pytest.raises(ServiceError, match="--to_continue"):
        scored(saved, "judge", judge="m", judge_base_url=url, request_attempts=1)


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("SCORE: 8/10", 8.0), ("**SCORE:** **7**", 7.0), ("Score = 7", 7.0), ("SCORE - 6.5.", 6.5), ("SCORE: 0", 0.0),
        ("SCORE: 2\nNo: SCORE: 9" + " " * 50_000 + "!", 9.0), ("SCORE: 3" + "9" * 5000, "no_number"),
        ("SCORE: -3", "no_number"), ("SCORE: 5\nSCORE: \u22123", "no_number"), ("SCORE: 85", "no_number"),
        ("SCORE: 4/5", "no_number"), ("SCORE (0-10): good", "no_number"), ("SCORE" * 20_000, "no_number"),
        ("HIGHSCORE: 3", "no_number"), ("SCORE:" + " " * 100_000, "no_number"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_judges_number_is_from_0_to_10_or_there_is_none(said, score):
    async def chat(body):
        return SimpleNamespace(content=said)

    counts = SimpleNamespace(prompt_tokens=0, completion_tokens=0)
    desk = SimpleNamespace(judge=SimpleNamespace(chat=chat, stats=counts), cost={})
    desk.flags = SimpleNamespace(judge="m")
    turn = Candidates(("t", 0, 0), 1, "P", "", (Candidate("What?", None, None, None, cut=False),))
    started = time.process_time()
    assert asyncio.run(judge([Asked(turn, (Message("user", "Write."),))], desk)) == [[score]]
    assert time.process_time() - started < 2


def test_the_worlds_oracle_judges_where_it_can(tmp_path):
    trades = sweet_rl.simulate("code", "mini:trades=10:test", agent="questioner", num_tasks=2)
    replace_rows(tmp_path / "trades.jsonl", map(trajectory_to_row, trades))
    found = scored(tmp_path / "trades.jsonl", "oracle", oracle_of="code")
    judge, one = world_of("code").scores.good_turn, trades[0]
    assert {row["scores"]["oracle"] for row in found.values()} <= {0.0, 1.0}
    first = judge(one.task.ground_truth, one.dialogue_history[:1], one.dialogue_history[1].output)
    assert found[(*one.key, 0)]["scores"]["oracle"] == float(first)


def test_archers_critic_is_the_one_of_the_checkpoint(tmp_path):
    debug(tmp_path / "run")
    played = tmp_path / "run" / "trajectories.jsonl"
    replace_rows(tmp_path / "played.jsonl", [row for _, row in read_rows(played)][:1])
    found = scored(tmp_path / "played.jsonl", "archer", archer_run=str(tmp_path / "run"), device="cpu")
    (one,) = load_trajectories(tmp_path / "played.jsonl")
    kept = {"critic_lm": str(tmp_path / "run/models/critic"), "max_context": 96, "device": "cpu"}
    critic = load_archer_critic(ArcherSettings(**kept), torch.device("cpu"))
    critic.load_state_dict(load_state(tmp_path / "run/checkpoint-2")["critic_state_dict"])
    world = json.loads((tmp_path / "run/settings.json").read_text())["env_name"]
    before = world_of(world).transcript().render(one.dialogue_history[:1])
    wanted = advantages(critic.read([before], [one.dialogue_history[1].output])).item()
    row = found[(*one.key, 0)]
    assert row["scores"]["archer"] == pytest.approx(wanted, abs=1e-6)
    assert row["cost"]["archer"] > 0
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="holds no critic"):
        scored(tmp_path / "played.jsonl", "archer", archer_run=str(tmp_path / "other"))


def test_archers_critic_of_a_chat_reads_the_prompt_of_the_policy(saved, tmp_path):
    lm = f"policy_lm={EMBEDDED}", f"critic_lm={EMBEDDED}"
    debug(tmp_path / "run", *lm, "template=chat", "max_context=512")
    found = scored(saved, "archer", archer_run=str(tmp_path / "run"), device="cpu")
    settings = ArcherSettings(critic_lm=model_path(EMBEDDED), max_context=512, device="cpu")
    critic = load_archer_critic(settings, torch.device("cpu"))
    critic.load_state_dict(load_state(tmp_path / "run/checkpoint-2")["critic_state_dict"])
    for turn in (turn for one in load_trajectories(saved) for turn in own_turns(one)):
        wanted = advantages(critic.read([turn.prompt], [turn.candidates[0].text])).item()
        assert found[turn.key]["scores"]["archer"] == pytest.approx(wanted, abs=1e-6)


def without_solutions(tmp_path):
    rows = list(recorded_rows(2))
    for row in rows:
        row["task"]["ground_truth"] = ""
    replace_rows(tmp_path / "none.jsonl", rows)
    return tmp_path / "none.jsonl"


def test_what_is_missing_has_a_reason_or_is_refused(models, saved, tmp_path):
    row = scored(
        without_solutions(tmp_path), "sweet,privileged", critic=models["critic"], agent=models["policy"]
    ).popitem()[1]
    assert row["why"] == {"sweet": "no_solution", "privileged": "no_solution"}
    assert row["hidden"] == {"advantage": None, "why": "no_solution"}
    rows = [row | {"task": row["task"] | {"ground_truth": "the same"}} for row in recorded_rows(2)]
    replace_rows(tmp_path / "same.jsonl", rows)
    row = scored(tmp_path / "same.jsonl", "privileged_other", agent=models["policy"]).popitem()[1]
    assert row["why"] == {"privileged_other": "same_solution"}
    other = str(other_tokenizer(tmp_path))
    for flags, words in (
        ({"methods": "sweet"}, "The method sweet needs --critic"),
        ({"methods": None}, "outcome and gigpo need no model"),
        ({"methods": "sweet_paper", "critic": models["critic"]}, "needs --reference_model"),
        ({"methods": "grp"}, "grpo"),
        ({"methods": "judge", "judge": "m"}, "needs --judge_base_url"),
        ({"methods": "sweet", "critic": other}, "another tokenizer than the agent that sampled"),
        (
            {"methods": "sweet", "critic": other, "reference_model": models["policy"]},
            "another tokenizer than",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            scored(saved, **flags)


def test_all_are_those_whose_needs_are_met(models, saved, capsys):
    row = scored(saved, "all", agent=models["policy"]).popitem()[1]
    assert list(row["scores"]) == [
        *"outcome grpo mt_grpo mt_grpo_biased gigpo trace infopo privileged privileged_other".split()
    ]
    assert "sweet is left out: it needs --critic." in capsys.readouterr().out


def test_a_state_that_two_turns_share_is_read_once(models, tmp_path):
    replace_rows(tmp_path / "three.jsonl", trajectories(1, turns=3))
    found = scored(tmp_path / "three.jsonl", "trace", agent=models["policy"])
    (one,) = load_trajectories(tmp_path / "three.jsonl")
    texts = [turn.input for turn in one.dialogue_history if turn.role == "assistant"]
    ids = [
        tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]
        for text in (*texts, one.task.ground_truth)
    ]
    assert sum(row["cost"]["trace"] for row in found.values()) == sum(map(len, ids)) + 2 * len(ids[-1])
