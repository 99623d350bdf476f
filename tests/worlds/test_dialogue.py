"""The two parsers on text written out by hand; the goldens hold the published one to the original."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.types import ANSWER_MARKER
from sweet_rl.worlds.dialogue import OUTPUT_MARKER, parse_fixed, parse_published

A, O = ANSWER_MARKER, OUTPUT_MARKER  # noqa: E741


@pytest.mark.parametrize(
    ("text", "published", "fixed"),
    [
        ("Why?", ("Why?", "Why?", None), ("Why?", "Why?", None)),
        (f"hm {O} Why?", (" Why?", f"hm {O} Why?", None), (" Why?", f"hm {O} Why?", None)),
        (f"{A}\nx", (f"{A}\nx", f"{A}\nx", "\nx"), (f"{A}\nx", f"{A}\nx", "\nx")),
        # code that holds a marker: cut by the published parser (item 3), whole in the fixed one
        (
            f"{A}\nprint('{O} 1')",
            (" 1')", f"{A}\nprint('{O} 1')", None),
            (f"{A}\nprint('{O} 1')", f"{A}\nprint('{O} 1')", "\nprint('OUTPUT: 1')"),
        ),
        # a thought that mentions the marker; the announcement stands at the start of a line
        (
            f"I may say {A} soon\n{O}\n{A} x",
            (f"\n{A} x", f"I may say {A} soon\n{O}\n{A} x", " x"),
            (f"\n{A} x", f"I may say {A} soon\n{O}\n{A} x", "x"),
        ),
    ],
)
def test_by_hand(text, published, fixed):
    for parse, (visible, output, answer) in ((parse_published, published), (parse_fixed, fixed)):
        parsed = parse(text)
        assert (parsed.visible, parsed.output, parsed.answer) == (visible, output, answer)


pieces = st.lists(st.sampled_from([A, O, "x", "\n", " ", "def f(): pass"]), max_size=8).map("".join)


@given(pieces)
def test_an_announced_answer_is_never_lost_by_the_fixed_parser(text):
    parsed = parse_fixed(text)
    assert (parsed.answer is not None) == (A in text)
    assert parsed.output == text
    if parsed.answer is not None:
        assert text.endswith(parsed.answer)
        assert parsed.visible.endswith(parsed.answer)


@given(pieces)
def test_published_output_is_a_prefix_and_visible_is_in_it(text):
    parsed = parse_published(text)
    assert text.startswith(parsed.output)
    assert parsed.visible in parsed.output
