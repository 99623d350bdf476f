"""Which rows an update has, and how they are divided: each row once, whatever the packing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat import Span
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow, Said
from sweet_rl.training.encoding import Encoded, Side
from sweet_rl.training.steps import ByTokens, StepSampler, by_count, history_groups, prefix_order


def one_pack(rows):
    return [rows]


def pair(index, history, chosen, rejected):
    """A step pair: two responses after one history."""
    sides = [
        Side.single((*history, *r), (Span(len(history), len(history) + len(r)),), len(history))
        for r in (chosen, rejected)
    ]
    return Encoded(index, tuple(sides), PairRow(Said(), Said(), Said(), "pairs.jsonl", index + 1))


def turns(count, pairs_per_turn=4, history=50):
    """Pairs of several turns, those of a turn scattered."""
    rows = [
        pair(0, [turn + 1] * history, [100 + n, 7], [200 + n, 7, 8])
        for n in range(pairs_per_turn)
        for turn in range(count)
    ]
    return [Encoded(i, row.sides, row.row) for i, row in enumerate(rows)]


@given(
    count=st.integers(1, 60),
    train_batch=st.integers(1, 20),
    micro=st.integers(1, 7),
    world=st.integers(1, 3),
    group=st.booleans(),
)
def test_every_row_once_and_equal_within_its_step(count, train_batch, micro, world, group):
    lengths = [(7 * row) % 23 + 1 for row in range(count)]
    ranks = [
        StepSampler(
            lengths,
            packs=by_count([-length for length in lengths], most=micro, world=world),
            train_batch=train_batch,
            seed=1,
            group_by_length=group,
            rank=rank,
            world=world,
        )
        for rank in range(world)
    ]
    batches = [list(sampler) for sampler in ranks]
    steps = -(-count // train_batch)
    accumulation = ranks[0].accumulation
    assert accumulation == -(-min(train_batch, count) // (micro * world))
    assert {len(mine) for mine in batches} == {steps * accumulation} == {len(sampler) for sampler in ranks}
    used = Counter(row for mine in batches for batch in mine for row, scale in batch if scale)
    assert used == Counter(range(count))
    for step in range(steps):
        mine = [b for rank in batches for b in rank[step * accumulation : (step + 1) * accumulation]]
        assert max(map(len, mine)) <= micro
        scales = [scale for batch in mine for _, scale in batch if scale]
        assert sum(scales) == pytest.approx(world)
        assert len(set(scales)) == 1


def test_steps_do_not_depend_on_the_micro_batch():
    def steps(most):
        sampler = StepSampler([3, 1, 2] * 10, train_batch=8, packs=by_count(range(30), most=most), seed=4)
        flat, accumulation = list(sampler), sampler.accumulation
        return [
            {row for batch in flat[i : i + accumulation] for row, scale in batch if scale}
            for i in range(0, len(flat), accumulation)
        ]

    assert steps(8) == steps(4) == steps(1)


def test_epochs_differ_and_the_files_order_can_be_kept():
    sampler = StepSampler(range(1, 21), train_batch=4, packs=one_pack, seed=0)
    first = list(sampler)
    sampler.epoch = 1
    assert list(sampler) != first
    sampler.epoch = 0
    assert list(sampler) == first
    kept = StepSampler(
        [5, 1, 4], train_batch=2, packs=one_pack, seed=0, shuffle=False, group_by_length=False, drop_last=True
    )
    assert list(kept) == [[(0, 0.5), (1, 0.5)]]


def test_rows_of_one_history_come_in_one_update():
    rows = turns(12)
    sampler = StepSampler(
        [row.length for row in rows], packs=one_pack, groups=history_groups(rows), train_batch=8, seed=3
    )
    for step in sampler:
        assert sorted(Counter(rows[row].branches[0].ids[0] for row, _ in step).values()) == [4, 4]


@given(budget=st.integers(55, 400), world=st.integers(1, 3))
def test_packs_keep_their_budget_and_every_row_once(budget, world):
    rows = turns(7)
    packs = ByTokens(rows, prefix_order(rows), budget=budget, world=world)(list(range(len(rows))))
    assert Counter(row for pack in packs for row in pack) == Counter(range(len(rows)))
    for pack in packs:
        sequences = {branch.ids for row in pack for branch in rows[row].branches}
        tokens = {
            ids[:n] for ids in sequences for n in range(1, len(ids) + 1)
        }  # each distinct prefix is a token
        assert len(tokens) <= budget


def test_a_step_is_divided_so_that_every_process_has_something_to_do():
    rows = turns(2)
    packs = ByTokens(rows, prefix_order(rows), budget=10_000, world=2)(list(range(8)))
    assert [len(pack) for pack in packs] == [4, 4]


def test_tokens_that_cannot_be_shared_are_counted_each_time():
    rows = turns(1)
    shared = ByTokens(rows, prefix_order(rows), budget=230)([0, 1, 2, 3])
    apart = ByTokens(rows, prefix_order(rows), budget=230, share=False)([0, 1, 2, 3])
    assert (len(shared), len(apart)) == (1, 2)


def test_a_row_over_the_budget_is_named():
    with pytest.raises(
        UsageError, match=r"pairs.jsonl.*1 takes 55 tokens, more than --max_tokens_per_batch 54"
    ):
        ByTokens(turns(1), [0, 1, 2, 3], budget=54)


def test_a_process_with_less_work_still_makes_every_pass():
    lengths = [9, 9, 1]
    packs = [[0], [1], [2]]
    samplers = [
        StepSampler(lengths, packs=lambda _: packs, train_batch=3, seed=0, rank=rank, world=2)
        for rank in (0, 1)
    ]
    first, second = map(list, samplers)
    assert len(first) == len(second) == 2
    assert second[1] == [(2, 0.0)]  # the shortest row, for nothing
