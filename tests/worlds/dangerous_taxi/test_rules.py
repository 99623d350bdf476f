"""Rules, pictures and ways of the taxi without goldens: what must hold in every state."""

import pytest

from sweet_rl.worlds.dangerous_taxi.game import (
    DEPOTS,
    IN_TAXI,
    START_STATES,
    STATES,
    TABLE,
    decode,
    draw,
    encode,
    plan,
    plan_to_pickup,
    read_state,
)


def test_states_are_numbered():
    assert [encode(*decode(state)) for state in range(STATES)] == list(range(STATES))
    assert len(START_STATES) == 25 * 4 * 3


def test_only_what_changes_nothing_gives_the_same_picture():
    """The published rule compares pictures, ours states: they say the same."""
    for state in range(STATES):
        for entry in TABLE[state]:
            assert (draw(entry.state) == draw(state)) == (entry.state == state)


def test_walls_by_hand():
    south, north, east, west = range(4)
    r_1_g = encode(0, 1, 0, 1)  # row 0, column 1: a wall to the east, the border to the north
    assert TABLE[r_1_g][east].state == TABLE[r_1_g][north].state == r_1_g
    assert TABLE[r_1_g][west].state == encode(0, 0, 0, 1)
    assert TABLE[r_1_g][south].state == encode(1, 1, 0, 1)
    low = encode(4, 2, 0, 1)  # a wall to the east of (3..4, 2) and to the east of (3..4, 0)
    assert TABLE[low][east].state == low
    assert TABLE[low][west].state == encode(4, 1, 0, 1)
    assert TABLE[encode(4, 1, 0, 1)][west].state == encode(4, 1, 0, 1)


def test_every_way_is_a_way_and_none_is_shorter():
    """Distances by relaxation over the whole table, not by the search itself."""
    distance = [float("inf")] * STATES
    changed = True
    while changed:
        changed = False
        for state in range(STATES):
            best = min(1 + (0 if entry.done else distance[entry.state]) for entry in TABLE[state])
            changed |= best < distance[state]
            distance[state] = best
    for start in range(STATES):
        state, done = start, False
        for action in plan(start):
            assert not done
            state, _, done = TABLE[state][action]
        assert done
        assert len(plan(start)) == distance[start]


@pytest.mark.parametrize("start", [22, 488, 92, 2])
def test_way_to_the_passenger(start):
    way = plan_to_pickup(start)
    assert way == plan(start)[: len(way)]
    assert way[-1] == 4
    assert plan_to_pickup(encode(0, 0, IN_TAXI, 1)) == ()


def test_pictures_are_read_back():
    """Also where the taxi hides the destination."""
    for state in range(STATES):
        place = decode(state)
        if place.passenger != place.destination:
            assert read_state(f"before\n{draw(0)}\nand then:\n\n{draw(state)}\nThe actions ...") == state
    assert read_state("no picture") is None
    assert read_state("+---------+") is None
    assert read_state(f"{draw(0)[:-20]}\n+---------+") is None
    hidden = encode(*DEPOTS[2], 0, 2)
    assert "D" not in draw(hidden)
    assert read_state(draw(hidden)) == hidden
