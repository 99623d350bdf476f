"""Which rows an update has, how they are divided, laid out as trees, and what a batch asks of a model."""

import math
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat import Span
from sweet_rl.errors import UsageError
from sweet_rl.training.batches import Collator, Reader, chains, lay_out, token_weights
from sweet_rl.training.data import DataRow, Said
from sweet_rl.training.encoding import Branch, Encoded, Side
from sweet_rl.training.steps import StepSampler, history_groups, packs_of

ROW = DataRow(Said(), (Said(), Said()), "pairs.jsonl", 1)


def two_turns():
    """Turns of 1 and of 3 tokens, beside a side with one turn of 2."""
    chosen = Side((Branch((5, 6, 7, 8, 9, 10), (Span(1, 2), Span(3, 6))),))
    return Encoded(0, (chosen, Side((Branch((5, 6, 7), (Span(1, 3),)),))), ROW)


def test_weights_by_hand():
    for reduction, weights in (
        ("sum", [0, 1, 0, 1, 1, 1]),
        ("trajectory", [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4]),
        ("turn", [0, 1, 0, 1 / 3, 1 / 3, 1 / 3]),
    ):
        np.testing.assert_allclose(token_weights(two_turns().sides[0], reduction)[0], weights)
    side = Side((Branch((5, 6, 7, 8), (Span(0, 4),), prompt_length=2),))
    assert token_weights(side, "trajectory")[0].tolist() == [0, 0, 0.5, 0.5]  # nor the first token


def asked(batch):
    """Every term of a batch: (output, row, place before, token) to weight."""
    width = batch["ids_RT"].shape[1]
    places = [divmod(int(place), width) for place in batch["predictors_K"]]
    return {
        (int(o), *places[k], int(batch["targets_K"][k])): float(w)
        for k, o, w in zip(batch["terms_M"], batch["outputs_M"], batch["weights_M"], strict=True)
    }


def test_a_batch_by_hand():
    batch = Collator("sum", Reader(99, attention_span=0))([(two_turns(), 0.5)])
    assert batch["ids_RT"].tolist() == [[5, 6, 7, 8, 9], [5, 6, 99, 99, 99]]  # the last one is predicted
    chosen = {(0, 0, 0, 6): 1, (0, 0, 2, 8): 1, (0, 0, 3, 9): 1, (0, 0, 4, 10): 1}
    nll = {(2, *place): -0.25 for _, *place in chosen}
    assert asked(batch) == chosen | {(1, 1, 0, 6): 1, (1, 1, 1, 7): 1} | nll
    assert "ends_RT" not in batch
    batch = Collator("sum", Reader(99))([(two_turns(), 0.5)])  # and with sharing
    assert batch["ids_RT"].tolist() == [[5, 6, 7, 8, 9]]
    assert batch["predictors_K"].tolist() == [0, 1, 2, 3, 4]
    assert batch["targets_K"].tolist() == [6, 7, 8, 9, 10]


def by_count(lengths, *, most, world=1):
    settings = SimpleNamespace(max_tokens_per_batch=None, micro_train_batch_size=most)
    return packs_of([SimpleNamespace(length=n) for n in lengths], settings, share=False, world=world)


def one_pack(rows):
    return [rows]


def pair(index, history, chosen, rejected):
    """A step pair: two responses after one history."""
    sides = [
        Side((Branch((*history, *r), (Span(len(history), len(history) + len(r)),), len(history)),))
        for r in (chosen, rejected)
    ]
    return Encoded(index, tuple(sides), DataRow(Said(), (Said(), Said()), "pairs.jsonl", index + 1))


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
            packs=by_count(lengths, most=micro, world=world),
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
        sampler = StepSampler([3, 1, 2] * 10, train_batch=8, packs=by_count([1] * 30, most=most), seed=4)
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


def packs(rows, budget, *, share=True, world=1):
    settings = SimpleNamespace(max_tokens_per_batch=budget, micro_train_batch_size=None)
    return packs_of(rows, settings, share=share, world=world)(list(range(len(rows))))


@given(budget=st.integers(55, 400), world=st.integers(1, 3))
def test_packs_keep_their_budget_and_every_row_once(budget, world):
    rows = turns(7)
    found = packs(rows, budget, world=world)
    assert Counter(row for pack in found for row in pack) == Counter(range(len(rows)))
    for pack in found:
        sequences = {branch.ids for row in pack for branch in rows[row].branches}
        tokens = {
            ids[:n] for ids in sequences for n in range(1, len(ids) + 1)
        }  # a distinct prefix is a token
        assert len(tokens) <= budget


def test_packs_by_hand():
    """Every process has something to do; tokens that cannot be shared are counted each time."""
    assert [len(pack) for pack in packs(turns(2), 10_000, world=2)] == [4, 4]
    assert (len(packs(turns(1), 230)), len(packs(turns(1), 230, share=False))) == (1, 2)
    told = r"pairs.jsonl.*1 takes 55 tokens, more than --max_tokens_per_batch 54"
    with pytest.raises(UsageError, match=told):
        packs(turns(1), 54)


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


def arrays(sequences):
    return [np.array(ids, dtype=np.uint32) for ids in sequences]


SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


def test_one_tree_by_hand():
    layout = lay_out(arrays([[1, 2, 3], [1, 2, 4, 5], [1, 2, 4]]))
    assert layout.ids_RT.tolist() == [[1, 2, 3, 4, 5]]
    assert layout.positions_RT.tolist() == [[0, 1, 2, 2, 3]]
    assert layout.ends_RT.tolist() == [[5, 5, 3, 5, 5]]  # nothing behind its branch sees token 3
    assert [places.tolist() for places in layout.places] == [[0, 1, 2], [0, 1, 3, 4], [0, 1, 3]]


@given(SEQUENCES, st.sampled_from([0.0, 3.0, math.inf]))
def test_every_token_sees_its_own_sequence_and_nothing_else(sequences, span):
    layout = lay_out(arrays(sequences), attention_span=span, pad_id=9)
    length = layout.ids_RT.shape[1]
    place = np.arange(length)
    for sequence, places in zip(sequences, layout.places, strict=True):
        row = places[0] // length
        assert (places // length == row).all()
        assert layout.ids_RT.reshape(-1)[places].tolist() == sequence
        assert layout.positions_RT.reshape(-1)[places].tolist() == list(range(len(sequence)))
        for token, flat in enumerate(places):
            q = flat % length
            seen = np.flatnonzero((place <= q) & (q < layout.ends_RT[row]))
            assert seen.tolist() == (places[: token + 1] % length).tolist()
    if span == 0:
        assert not layout.shares
        assert (layout.ends_RT > 0).sum() == sum(map(len, sequences))
    if span == math.inf:  # each distinct beginning is one token
        distinct = {tuple(ids[:n]) for ids in sequences for n in range(1, len(ids) + 1)}
        assert (layout.ends_RT > 0).sum() == len(distinct)


def test_what_is_shared_and_how_rows_are_filled():
    near = arrays([[1] * 10 + [2] * 90, [1] * 10 + [3] * 90])  # shared only where attention is cheap
    for span, trees in ((0, 2), (1, 2), (1e6, 1), (math.inf, 1)):
        assert len(lay_out(near, attention_span=span).ids_RT) == trees
    rng = np.random.default_rng(0)  # four histories of 600 tokens with 300 in common, four candidates each
    common, own, last = (rng.integers(0, 32_000, shape) for shape in (300, (4, 300), (4, 4, 24)))
    sequences = arrays([[*common, *own[i], *last[i, j]] for i in range(4) for j in range(4)])
    assert lay_out(sequences, attention_span=1536).ids_RT.shape == (4, 696)
    sequences = [[n] * size for n, size in enumerate([8, 5, 3, 4, 4])]
    layout = lay_out(arrays([*sequences, [0] * 8]))  # something is shared, so rows may hold several trees
    assert layout.ids_RT.shape == (3, 8) and (layout.ends_RT > 0).all()
    for span, shape in ((math.inf, (2, 4)), (64, (2, 4)), (0, (5, 4))):  # much padding, nothing shared
        layout = lay_out(arrays([[1] * 4, [2], [3], [4], [5]]), attention_span=span)
        assert (layout.ids_RT.shape, layout.shares) == (shape, span > 0)


@given(SEQUENCES)
def test_of_sequences_that_begin_each_other_the_longest_is_last(sequences):
    """Every sequence is in one chain, begins the next one there, and no chain's last one begins another's."""
    rows = [tuple(ids) for ids in sequences]
    found = chains(rows)
    assert sorted(number for chain in found for number in chain) == list(range(len(rows)))
    for chain in found:
        for one, other in pairwise(chain):
            assert rows[other][: len(rows[one])] == rows[one]
    lasts = [rows[chain[-1]] for chain in found]
    assert not any(
        a is not b and b[: len(a)] == a for n, a in enumerate(lasts) for b in [*lasts[:n], *lasts[n + 1 :]]
    )
