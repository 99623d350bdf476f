"""A cache that tokens are added to without copying, against the one of transformers."""

import torch
from transformers import DynamicCache

from sweet_rl.policies.decoding import with_room


def filled(places):
    torch.manual_seed(0)
    cache = DynamicCache()
    for layer in range(2):
        cache.update(torch.rand(3, 2, places, 4), torch.rand(3, 2, places, 4), layer)
    return cache


def test_it_holds_what_the_usual_one_holds():
    ours, theirs = filled(5), filled(5)
    with_room(ours)
    for number in range(150):
        if number in {70, 71}:
            rows = torch.tensor([2, 0] if number == 70 else [1, 0])
            ours.batch_select_indices(rows)
            theirs.batch_select_indices(rows)
        for layer in range(2):
            new = torch.rand(2, len(theirs.layers[layer].keys), 2, 1, 4)
            for one, other in zip(ours.update(*new, layer), theirs.update(*new, layer), strict=True):
                assert torch.equal(one, other)
    assert ours.get_seq_length() == theirs.get_seq_length() == 155


def test_a_token_is_written_and_nothing_else():
    cache = filled(5)
    with_room(cache)
    keys = [cache.update(torch.rand(3, 2, 1, 4), torch.rand(3, 2, 1, 4), 0)[0] for _ in range(40)]
    assert len({key.data_ptr() for key in keys}) == 1
