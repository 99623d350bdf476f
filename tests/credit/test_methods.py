"""Methods on groups by hand, and on decision processes so small that every advantage is known."""

import itertools

import pytest

from sweet_rl.credit.methods import GROUPED, Steps, gigpo, grpo, mt_grpo, mt_grpo_biased, outcome

A = Steps((1.0, 0.0, 2.0), ("s", "a", "b"))
B = Steps((0.0, 1.0), ("s", "a"))
C = Steps((1.0,), ("s",))
"""Outcomes 3, 1, 1; returns from each turn on 3 2 2, 1 1, 1."""


def by_hand(value):
    return [pytest.approx(own, abs=1e-9) for own in value]


@pytest.mark.parametrize(
    ("method", "gamma", "wanted"),
    [
        (outcome, 1.0, [[4 / 3] * 3, [-2 / 3] * 2, [-2 / 3]]),
        (grpo, 1.0, [[1.154700538] * 3, [-0.577350269] * 2, [-0.577350269]]),  # over 2 / sqrt(3)
        # means by turn 2/3, 1/2, 2
        (mt_grpo_biased, 1.0, [[1 / 3 - 1 / 2 + 0, -1 / 2, 0.0], [-2 / 3 + 1 / 2, 1 / 2], [1 / 3]]),
        # means of the return from each turn on, over all three: 5/3, 1, 2/3
        (mt_grpo, 1.0, [[4 / 3, 1.0, 4 / 3], [-2 / 3, 0.0], [-2 / 3]]),
        (mt_grpo, 0.5, [[1.5 - 1, 1 - 2 / 3, 2 - 2 / 3], [0.5 - 1, 1 - 2 / 3], [0.0]]),
        # the outcome's, and returns less 5/3 in the state s, 3/2 in a, 2 in b
        (gigpo, 1.0, [[4 / 3 + 4 / 3, 4 / 3 + 1 / 2, 4 / 3], [-2 / 3 - 2 / 3, -2 / 3 - 1 / 2], [-2 / 3 - 2 / 3]]),
    ],
)  # fmt: skip
def test_advantages_by_hand(method, gamma, wanted):
    assert method([A, B, C], gamma) == by_hand(wanted)


def test_equal_outcomes_say_nothing():
    for name, method in GROUPED.items():
        found = method([C, C, C], 1.0)
        assert found == by_hand([[0.0]] * 3), name


# A decision process: in each state the actions, each with a probability, what it pays on average (0 or twice that), and
# the next state; None ends the episode.
STOP_OR_GO = {
    "first": {"stop": (0.3, 0.5, None), "go": (0.5, 0.5, "second"), "wait": (0.2, 0.0, "second")},
    "second": {"stop": (0.6, 1.0, None), "go": (0.4, 0.5, "third")},
    "third": {"end": (1.0, 1.0, None)},
}
ALWAYS_TWO = {
    "first": {"left": (0.3, 0.5, "l"), "right": (0.4, 1.0, "r"), "other": (0.3, 0.0, "l")},
    "l": {"good": (0.5, 1.0, None), "bad": (0.5, 0.0, None)},
    "r": {"good": (0.2, 0.5, None), "bad": (0.8, 0.5, None)},
}


def value(process, state):
    return (
        0.0
        if state is None
        else sum(p * (r + value(process, then)) for p, r, then in process[state].values())
    )


def episodes(process, state="first"):
    """Every episode with its probability: rewards, states, actions."""
    if state is None:
        return [(1.0, (), (), ())]
    return [
        (p * half * q, (2 * r * paid, *rewards), (state, *states), (action, *actions))
        for action, (p, r, then) in process[state].items()
        for half, paid in ([(0.5, 0), (0.5, 1)] if r else [(1.0, 0)])
        for q, rewards, states, actions in episodes(process, then)
    ]


def bias(method, process, size=2):
    """How far expected differences between a state's actions are from those of Q, at most: exact, over all groups.

    Group means count the episode itself, which shrinks all differences in a state alike: the scale is taken out. Without
    any rise with Q the differences count in full.
    """
    every, found, weight = episodes(process), {}, {}
    for group in itertools.product(every, repeat=size):
        p = 1.0
        for one in group:
            p *= one[0]
        own = method([Steps(rewards, states) for _, rewards, states, _ in group], 1.0)[0]
        for a, state, action in zip(own, group[0][2], group[0][3], strict=True):
            found[state, action] = found.get((state, action), 0.0) + p * a
            weight[state, action] = weight.get((state, action), 0.0) + p
    worst = 0.0
    for state, actions in process.items():
        q = {action: r + value(process, then) for action, (_, r, then) in actions.items()}
        pairs = [
            (q[a] - q[b], found[state, a] / weight[state, a] - found[state, b] / weight[state, b])
            for a, b in itertools.combinations(actions, 2)
        ]
        rises = sum(true * said for true, said in pairs) / max(sum(true**2 for true, _ in pairs), 1e-12)
        scale = rises if rises > 0.05 else 1.0
        worst = max([worst, *(abs(said / scale - true) for true, said in pairs)])
    return worst


# grpo weighs groups by their own deviation, by design
@pytest.mark.parametrize("name", [name for name in GROUPED if name != "grpo"])
def test_only_the_biased_form_is_biased_where_the_agent_decides_when_to_stop(name):
    assert bias(GROUPED[name], ALWAYS_TWO) < 1e-9
    found = bias(GROUPED[name], STOP_OR_GO)
    assert found > 0.3 if name == "mt_grpo_biased" else found < 1e-9


def test_the_bias_is_what_going_on_earns_on_average():
    """verl#7244: of two repeats the one that goes on has the other's mean of the later rewards taken away."""
    process = {
        "first": {"stop": (0.5, 0.5, None), "go": (0.5, 0.5, "second")},
        "second": {"end": (1.0, 1.0, None)},
    }
    groups = [
        (a[0] * b[0], mt_grpo_biased([Steps(*a[1:3]), Steps(*b[1:3])])[0][0], a[3][0])
        for a, b in itertools.product(episodes(process), repeat=2)
    ]
    means = {
        action: sum(p * value for p, value, own in groups if own == action) / 0.5 for action in ("stop", "go")
    }
    assert means["go"] - means["stop"] == pytest.approx(0.0)  # going on is worth 1.0
