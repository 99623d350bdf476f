"""Sequences that begin alike stand there once, and every token sees exactly its own sequence."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.training.trees import chains, common_prefix, grow, lay_out


def arrays(sequences):
    return [np.array(ids, dtype=np.uint32) for ids in sequences]


SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


def test_one_tree_by_hand():
    (tree,) = grow(arrays([[1, 2, 3], [1, 2, 4, 5], [1, 2, 4]]))
    assert tree.ids_N.tolist() == [1, 2, 3, 4, 5]
    assert tree.positions_N.tolist() == [0, 1, 2, 2, 3]
    assert tree.ends_N.tolist() == [5, 5, 3, 5, 5]  # nothing behind its branch sees token 3
    assert tree.members == [0, 2, 1]
    assert [places.tolist() for places in tree.places] == [[0, 1, 2], [0, 1, 3], [0, 1, 3, 4]]


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


@given(SEQUENCES)
def test_without_a_price_each_distinct_beginning_is_one_token(sequences):
    layout = lay_out(arrays(sequences))
    assert (layout.ends_RT > 0).sum() == len({tuple(s[:n]) for s in sequences for n in range(1, len(s) + 1)})


@pytest.mark.parametrize(("span", "trees"), [(0, 2), (1, 2), (1e6, 1), (math.inf, 1)])
def test_a_short_common_beginning_is_shared_only_where_attention_is_cheap(span, trees):
    opening = [1] * 10
    assert len(grow(arrays([opening + [2] * 90, opening + [3] * 90]), attention_span=span)) == trees


def test_trees_are_of_a_size_where_padding_costs_more_than_sharing_saves():
    """Four histories of 600 tokens with 300 in common, four candidates each."""
    rng = np.random.default_rng(0)
    common, own, last = (rng.integers(0, 32_000, shape) for shape in (300, (4, 300), (4, 4, 24)))
    sequences = arrays([[*common, *own[i], *last[i, j]] for i in range(4) for j in range(4)])
    assert [len(tree.ids_N) for tree in grow(sequences, attention_span=1536)] == [1488, 696]
    assert lay_out(sequences, attention_span=1536).ids_RT.shape == (4, 696)


def test_rows_are_filled():
    sizes = [8, 5, 3, 4, 4]
    sequences = [[n] * size for n, size in enumerate(sizes)]
    layout = lay_out(arrays([*sequences, [0] * 8]))  # something is shared, so rows may hold several trees
    assert layout.ids_RT.shape == (3, 8)
    assert (layout.ends_RT > 0).all()


@pytest.mark.parametrize(("span", "shape"), [(math.inf, (2, 4)), (64, (2, 4)), (0, (5, 4))])
def test_rows_of_padding_are_filled_though_nothing_is_shared(span, shape):
    layout = lay_out(arrays([[1] * 4, [2], [3], [4], [5]]), attention_span=span)
    assert (layout.ids_RT.shape, layout.shares) == (shape, span > 0)


def test_common_prefix():
    a, b = arrays([[1, 2, 3], [1, 2]])
    assert common_prefix(a, b) == common_prefix(b, a) == 2
    assert common_prefix(a, a) == 3
    assert common_prefix(a, a[:0]) == 0
    assert common_prefix(a[1:], b) == 0


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
