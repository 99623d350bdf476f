"""Rows of trainers: clean ones pass, and faults like those that were found in trainers are named with their place."""

from array import array
from itertools import product
from statistics import fmean, pstdev, stdev

import pytest

from sweet_rl.credit.check import runs
from sweet_rl.credit.commands import check
from sweet_rl.credit.methods import Steps, grpo, mt_grpo, mt_grpo_biased
from sweet_rl.errors import DataError
from sweet_rl.integrations.tokens import credited_rows
from sweet_rl.records import replace_rows, trajectory_to_row
from tests.integrations.credit import episodes, findings
from tests.tiny_models import save_tiny_gpt2, tiny_tokenizer


def checked(rows, claim="auto", **more):
    """Findings as they are printed."""
    return [f"line {line}, {text}" for line, text in findings(rows, claim=claim, **more)]


def exported():
    """As `export_credit` writes them: two tasks, two repeats of each, two turns in each."""
    credit = [[0.5, -1.0], [2.5, None], [0.0, 1.0], [-1.0, 3.0]]
    return credited_rows(episodes(), credit, tiny_tokenizer())


def spread(values, turns):
    """Values of turns on their tokens, with others' words between them."""
    return [x for value, count in zip(values, turns, strict=True) for x in (*[value] * count, 0.0, 0.0, 0.0)]


LENGTHS = ([2, 4, 3], [3, 2], [5])
"""Tokens of each turn: repeats of a task stop after three, two and one turns."""
REWARDS = ([1.0, 0.0, 2.0], [0.0, 1.0], [1.0]), ([0.0, 2.0, 0.0], [1.0, 0.0], [0.0])
"""What the turns earn, by task and repeat."""


def by_turns(method, *, columns="ours", rewards=REWARDS):
    """Rows whose advantages a method gives, in the columns of trainers; turns of other rewards have two tokens."""
    rows = []
    for task, repeats in enumerate(rewards):
        advantages = method([Steps(tuple(own), ("",) * len(own)) for own in repeats], 1.0)
        lengths = LENGTHS if rewards is REWARDS else [[2] * len(own) for own in repeats]
        for own, paid, turns in zip(advantages, repeats, lengths, strict=True):
            mask = [int(one) for one in spread([1] * len(turns), turns)]
            ids = [*range(10, 10 + len(mask))]
            if columns == "openrlhf":  # masks of predicted tokens, behind the prompt's first
                row = {"group_id": task, "sequences": [1, 2, *ids], "action_mask": [0, *mask]}
                row |= {"rewards": paid, "advantages": [0.0, *spread(own, turns)]}
            else:
                row = {"task_id": f"t{task}", "completion_ids": ids, "completion_mask": [1] * len(ids)}
                row |= {"tool_mask": mask, "turn_rewards": paid, "advantages": spread(own, turns)}
            rows.append(row)
    return rows


def stepwise(*, broken):
    """A turn a row, padded on the left: the outcome's advantage of each episode on its turns (SkyRL)."""
    rows, width = [], 6
    for repeat, turns in enumerate(LENGTHS):
        value = grpo([Steps(tuple(own), ("",) * len(own)) for own in REWARDS[0]], 1.0)[repeat][0]
        mask_of = {number: [0] * (width - count) + [1] * count for number, count in enumerate(turns)}
        for number, mask in mask_of.items():
            last = mask_of[len(turns) - 1]  # the fault: the last turn's masked tensor for all of them
            row = {"uid": "t0", "trajectory_id": repeat, "turn_index": number, "response_ids": [7] * width}
            row |= {"response_mask": mask, "reward": sum(REWARDS[0][repeat])}
            rows.append(row | {"advantages": [value * own for own in (last if broken else mask)]})
    return rows


def alone():
    """A task with one repeat: GRPO leaves its outcome."""
    return [row | {"task_id": "alone", "advantages": row["tool_mask"]} for row in by_turns(grpo)[2:3]]


def outcomes(*, broken, by="turns"):
    """Outcomes less their mean over episodes, or over all turns (agent-lightning) or tokens."""
    rows = by_turns(grpo)
    for task, rewards in enumerate(REWARDS):
        returns = [sum(paid) for paid in rewards]
        counts = [len(turns) if by == "turns" else sum(turns) for turns in LENGTHS]
        mean = fmean(returns, counts if broken else None)
        for row, value in zip(rows[3 * task :], returns, strict=False):
            row["advantages"] = [(value - mean) * own for own in row["tool_mask"]]
    return rows + alone()


def normalised(*, broken, rewards=REWARDS):
    """GRPO's advantages, and the same once more over all turns (gem)."""
    rows = by_turns(grpo, rewards=rewards) + alone()
    if broken:
        values = [row["advantages"][0] for row in rows]
        pool = [value for value, row in zip(values, rows, strict=True) for _ in row["turn_rewards"]]
        for row, value in zip(rows, values, strict=True):
            row["advantages"] = [(value - fmean(pool)) / stdev(pool) * own for own in row["tool_mask"]]
    return rows


def by_steps(rows):
    """The same rows, a turn each with its own reward, in another order (verl)."""
    steps = []
    for at, row in enumerate(rows):
        for number, (span, paid) in enumerate(zip(runs(row["tool_mask"]), row["turn_rewards"], strict=True)):
            values = row["advantages"][slice(*span)]
            step = {"uid": row["task_id"], "traj_uid": [at], "turn_index": number, "advantages": values}
            step |= {"responses": values, "response_mask": [1] * len(values)}
            steps.append(step | {"token_level_rewards": [0.0] * (len(values) - 1) + [paid], "score": 9.0})
    return steps[::-1]


FAULTS = {
    "SkyRL#1492": (stepwise, "line 1, token 3: 1 advantages stand where the agent said nothing"),
    "verl#7244": (lambda broken: by_turns(mt_grpo_biased if broken else mt_grpo), "line 1, turn 0: the baseline depends on how long the episode goes on (each turn's reward less"),
    "agent-lightning#462": (outcomes, "line 1, turn 0: the baseline of its group counts turns, not episodes: the mean over its 3 episodes is "),
    "tokens": (lambda broken: outcomes(broken=broken, by="tokens"), "line 1, turn 0: the baseline of its group counts tokens, not episodes"),
    "gem#113": (normalised, "line 1, turn 0: advantages are normalised twice: over the episodes of each group (their means are all "),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_without_it_nothing_is(name):
    rows, words = FAULTS[name]
    assert checked(rows(broken=False)) == []
    found = checked(rows(broken=True))
    assert any(one.startswith(words) for one in found), found
    if rows is not stepwise:
        assert checked(by_steps(rows(broken=False))) == []
        assert words.partition(" (")[0].partition(": ")[2] in checked(by_steps(rows(broken=True)))[0]


def test_the_faults_are_found_in_other_shapes_too():
    """Kinds, not these rows: zeros instead of misplaced values, two repeats, groups of other sizes, another trainer's columns."""
    lost = stepwise(broken=False)
    lost[0]["advantages"] = [0.0] * 6
    assert checked(lost) == [
        "line 1, turn 0: it has no advantage (0), other turns of its episode have one. Give every sampled turn its own; "
        "where 0 is right, write a column `credit`"
    ]
    alone = [[[1.0, 0.5, 0.0], [0.0]]]  # two repeats in the right order: only the biased formula tells
    assert "depends on how long" in checked(by_turns(mt_grpo_biased, rewards=alone))[0]
    assert checked(by_turns(mt_grpo, rewards=alone)) == []
    assert "depends on how long" in checked(by_turns(mt_grpo_biased, columns="openrlhf"))[0]
    (rows := by_turns(mt_grpo))[0]["turn_rewards"] = [0.0, 0.0, 1.0, *[0.0] * 15]
    assert "line 1, a reward stands where the agent said nothing" in checked(rows)[0]
    (rows := by_turns(mt_grpo))[0]["turn_rewards"] = [1.0, 0.0]
    assert "2 rewards, but 3 runs of trained tokens" in checked(rows)[0]
    assert "normalised twice" in checked(normalised(broken=True, rewards=[REWARDS[0], REWARDS[1][:2]]))[0]


def test_clean_rows_of_all_trainers_pass():
    assert checked(exported(), ends=(END,), special=set(tiny_tokenizer().all_special_ids)) == []
    assert checked(exported(), said={one.key: one for one in episodes()}) == []
    floats = [row | {"sample_index": float(row["sample_index"])} for row in exported()]  # a table with gaps
    assert checked(floats, said={one.key: one for one in episodes()}) == []
    for row in (rows := by_turns(grpo, rewards=[[[0.50001], [0.50003], [0.50004]]])):
        row["turn_rewards"] = array("f", row["turn_rewards"]).tolist()  # 32 bits
    assert checked(rows) == []
    cut = {"response_ids": [1, 2], "loss_mask": [0, 0], "response_mask": [1, 1], "advantages": [0.5, 0.5]}
    assert checked([cut]) == []  # too long to be trained (SkyRL)
    steps = ((0, 5.0, -1.0), (0, 0.0, -1.0), (1, 0.0, 1.0), (1, 2.0, 1.0))  # the last row's reward counts
    row = {"uid": "a", "responses": [1], "response_mask": [1]}
    assert checked([row | {"traj_id": at, "reward": paid, "advantage": own} for at, paid, own in steps]) == []
    for columns, method in product(("ours", "openrlhf"), (mt_grpo, grpo)):
        assert checked(by_turns(method, columns=columns)) == [], (columns, method)
    for groups, deviation in product((1, 2), (stdev, pstdev)):  # REINFORCE++: all tokens, normalised once
        rewards = [[[3.0, 0, 0], [1.0, 0], [1.0]], [[1.0, 0, 0], [3.0, 0], [1.0]]]
        rows = by_turns(grpo, rewards=rewards[:groups])
        pool = [row["turn_rewards"][0] for row in rows for own in row["tool_mask"] if own]
        for row in rows:
            value = (row["turn_rewards"][0] - fmean(pool)) / deviation(pool)
            row["advantages"] = [value * own for own in row["tool_mask"]]
        assert checked(rows) == []
    said = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant")]
    reply = {"dialogues": [{"hidden": "s", "messages": said}], "why": [["", "no_prompt"]]}
    reply["advantages"] = [[0.5, None]]
    assert checked([reply]) == []
    reply["advantages"] = [[0.5]]
    assert "1 credits, but 2 runs of trained tokens" in checked([reply])[1]


def test_a_turn_may_be_worth_nothing_and_tokens_may_differ():
    """Returns equal to their baseline, episodes at which the biased formula is right, a critic's advantages (GAE)."""
    for paid in ([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0], [1.0]]):
        assert checked(by_turns(mt_grpo, rewards=[paid])) == []
    for row in (rows := by_turns(mt_grpo)):
        row["advantages"] = [own / 7 + at if own else 0.0 for at, own in enumerate(row["tool_mask"])]
    assert checked(rows) == []
    (rows := by_turns(grpo))[0]["advantages"][1] *= 2
    assert checked(rows)[0].startswith("line 1, turn 0: its tokens have several advantages")


def test_a_turn_that_no_row_has_is_found_by_the_trajectories():
    for row in (rows := [{**row, "turn_indexes": [0]} for row in exported()]):
        row["env_mask"] = [own * (at < 12) for at, own in enumerate(row["env_mask"])]
        del row["credit"]
        row["advantages"] = []
    said = {one.key: one for one in episodes()}
    assert [one for one in checked(rows, said=said) if "turn 1 of the trajectory file is in no row" in one]
    assert not [one for one in checked(rows) if "in no row" in one]


@pytest.mark.parametrize("columns", [
        {"advantages": ["a"] * 18},
        {"advantages": [[0.5]] * 18, "tool_mask": [[1]] * 18},
        {"turn_spans": [[0, 3], [2, 9], [9, 10]]},
        {"turn_spans": [[0, 2], [5, 9], [12, 99]]},
        {"turn_rewards": [float("nan"), 1.0, 0.0]},
        {"traces": [None]},
])  # fmt: skip
def test_what_is_no_row_is_refused_with_its_line(columns):
    with pytest.raises(DataError, match="line 1: cannot be read"):
        checked([by_turns(mt_grpo)[0] | columns])


def test_an_advantage_in_a_row_without_turns_is_found():
    row = {"completion_ids": [1, 2], "completion_mask": [0, 0], "advantages": [0.5, 0.5]}
    assert "2 advantages stand where the agent said nothing" in checked([row])[0]
    steps = [{"uid": "a", "responses": [1], "response_mask": [1], "reward": r} for r in (0.0, 1.0)]
    wrong = [step | {"advantage": a} for step, a in zip(steps, (0.5, -0.5), strict=True)]  # verifiers' column
    assert "does not fit the outcome" in checked(wrong)[0]


@pytest.mark.parametrize(("at", "change", "words"), [
        (1, {}, None),
        (1, {"advantages": None}, None),  # a turn without a score stays unassigned
        (1, {"advantages": [0.5]}, "node 1: 3 tokens, 3 entries of the mask, 1 advantages"),
        (1, {"advantages": [0.0, 0.5]}, "turn 1: 1 of its 2 tokens have lost their advantage"),
        (0, {"mask": [False, True]}, "token 1: 1 tokens are trained that belong to no turn"),
])  # fmt: skip
def test_traces(at, change, words):
    """As verifiers writes them: a node for each message."""
    agent, user = {"message": {"role": "assistant"}, "sampled": True}, {"message": {"role": "user"}}
    nodes = [
        user | {"token_ids": [1, 2], "mask": [False, False]},
        agent | {"token_ids": [9, 3, 4], "mask": [False, True, True], "advantages": [0.5, 0.5]},
        user,
        agent | {"token_ids": [9, 5], "mask": [False, True], "advantages": [-0.5]},
    ]
    nodes[at] |= change
    found = checked([{"task": {"data": {"id": "t0"}}, "traces": [{"nodes": nodes}]}])
    assert words in found[0] if words else found == []


def changed(**columns):
    """The first exported row with other values in some columns."""

    def change(rows):
        for name, value in columns.items():
            rows[0][name] = value(rows[0][name]) if callable(value) else value

    return change


def first(value, at=0):
    return lambda column: [*column[:at], value, *column[at + 1 :]]


END = tiny_tokenizer().eos_token_id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed(env_mask=lambda mask: [1] * len(mask)), "2 turns and 2 credits, but 1 runs of trained tokens: a turn is missing, or what stands between turns is trained"),
        (changed(env_mask=lambda mask: [*mask[:-1], 0]), "token 19: 1 advantages stand where the agent said nothing"),
        (changed(env_mask=lambda mask: mask[:-1]), "masks of [19]. Write a 1 or a 0 for each token"),
        (changed(turn_spans=[[0, 6], [24, 28]]), "token 6: 1 tokens are trained that belong to no turn"),
        (changed(turn_spans=[[0, 8], [24, 28]]), "turn 0: 1 of its 8 tokens are not trained"),
        (changed(advantages=first(0.0, 1)), "turn 0: 1 of its"),
        (changed(advantages=first(float("nan"))), "token 0: the advantage is no number"),
        (changed(advantages=[1.0, 2.0, 3.0]), "3 advantages for"),
        (changed(credit=lambda credit: credit[::-1]), "is not its credit"),
        (changed(credit=[0.5]), "1 credits"),
        (changed(credit=[None, -1.0]), "turn 0: no credit, but the advantage"),
        (changed(completion_ids=first(END)), "turn 0: tokens behind its end (token 0) are trained"),
        (changed(completion_ids=first(tiny_tokenizer().bos_token_id)), "turn 0: it begins with the template's token"),
        (changed(completion_ids=first(77)), "turn 0: its tokens are not those of the trajectory file: another policy"),
        (changed(sample_index=9), "the trajectory file has no such episode"),
        (changed(rewards=lambda _: [0.0, 1.0]), None),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_row_is_named_with_its_place(change, words):
    rows = exported()
    rows[0]["rewards"] = []
    width = len(rows[0]["env_mask"])
    change(rows)
    said = {one.key: one for one in episodes()}
    found = checked(rows, ends=(END,), special=set(tiny_tokenizer().all_special_ids), said=said)
    if words is None:
        assert found == []
    else:
        words = words.replace("19:", f"{width - 1}:").replace("[19]", f"[{width - 1}]")
        assert any(words in one for one in found), found
        assert all(one.startswith("line 1, ") for one in found if "credit" not in one)


def test_a_claim_is_held_against_all_rows():
    rows = by_turns(mt_grpo)
    assert "its episode has several advantages" in checked(rows, "outcome")[0]
    assert checked(by_turns(mt_grpo_biased), "other") == []
    swapped = outcomes(broken=False)
    for row, value in zip(swapped, [one["advantages"][0] for one in swapped[1::-1]], strict=False):
        row["advantages"] = [value * own for own in row["tool_mask"]]
    assert "does not fit the outcome" in checked(swapped)[0]


def test_the_command_prints_each_finding_and_fails(tmp_path, capsys):
    rows, path = exported(), tmp_path / "rows.jsonl"
    replace_rows(path, rows)
    replace_rows(tmp_path / "run.jsonl", map(trajectory_to_row, episodes()))
    folder = save_tiny_gpt2(tmp_path / "gpt2")
    check(path, tokenizer=str(folder), trajectories=str(tmp_path / "run.jsonl"))
    assert "4 rows with 8 turns: nothing was found." in capsys.readouterr().out
    rows[2]["advantages"][0] = 0.0
    replace_rows(path, rows)
    with pytest.raises(DataError, match="1 findings in 4 rows"):
        check(path)
    said = capsys.readouterr().out
    assert said.startswith(f"{path}, line 3: turn 0: 1 of its ")
    assert said.endswith("have lost their advantage (0). Spread it over the whole turn.\n")
    replace_rows(path, [{"completion_ids": [1, 2], "advantages": [0.5, 0.5]}])
    with pytest.raises(DataError, match=r"line 1: has no spans of turns.*env_mask.*turn_spans"):
        check(path)


def test_parquet_is_read(tmp_path):
    table, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table.Table.from_pylist(exported()), tmp_path / "rows.parquet")
    check(tmp_path / "rows.parquet")
