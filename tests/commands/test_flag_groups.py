"""Flags that stages share: in signature and help where their group stands, and as one value in the stage."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest

from sweet_rl.cli import help_text, load
from sweet_rl.commands.flag_groups import needing, with_flags
from sweet_rl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Weather:
    """How it is outside.

    Args:
        warmth: degrees, and
            nothing else.
        wind: knots.

    Raises:
        UsageError: never.
    """

    warmth: float = 20.0
    wind: int | None = None


def day(*places: str, length: int = 24, weather: Weather, quiet: bool = False) -> None:
    """A day.

    Args:
        places: where.
        length: hours.
        weather: outside.
        wind: miles.
        quiet: no birds.
    """
    told.append((places, length, weather, quiet))


told = []

stage = with_flags({"weather": Weather, "tides": Weather}, {"wind": 3})(day)


def test_a_group_stands_where_its_parameter_is():
    flags = inspect.signature(stage).parameters
    assert list(flags) == ["places", "length", "warmth", "wind", "quiet"]
    assert (flags["warmth"].default, flags["wind"].default) == (20.0, 3)
    assert flags["wind"].annotation == "int | None"


def test_the_stage_gets_the_group_as_one():
    stage("a", "b", length=12, wind=7)
    stage()
    assert told == [(("a", "b"), 12, Weather(20.0, 7), False), ((), 24, Weather(20.0, 3), False)]
    with pytest.raises(TypeError, match="rain"):
        stage(rain=1)


def test_help_teaches_all_flags_and_the_stages_own_words_count_more():
    text = help_text("day", stage)
    assert "--warmth FLOAT   (default 20.0)\n        degrees, and nothing else." in text
    assert "miles." in text
    assert "knots" not in text
    assert "outside" not in text
    assert "UsageError" not in text


def test_a_missing_package_is_named_and_other_failures_stay_as_they_are():
    @needing(frozenset({"no_such_package"}), "training", needed_for="this")
    def work(package):
        __import__(package)

    with pytest.raises(UsageError, match=r"this needs the package 'no_such_package'.*sweet_rl\[training\]"):
        work("no_such_package")
    with pytest.raises(ModuleNotFoundError, match="another"):
        work("another_missing_package")


@pytest.mark.parametrize(
    ("name", "concurrency", "model"),
    [
        ("gen_task", "files in work at once.", "gpt-4"),
        ("reflection_negative", "trajectories in work at once.", "gpt-4"),
        ("taxi_reflection", "for openai: requests in flight.", "gpt-4"),
        ("alfworld_reflection", "for openai: requests in flight.", "gpt-4"),
        ("auto_explore_gpt", "episodes in flight.", "gpt-4"),
        ("evaluate_gpt", "episodes in flight.", "gpt-3.5-turbo"),
    ],
)
def test_stages_with_a_teacher_teach_its_seven_flags(name, concurrency, model):
    text = help_text(name, load(f"reflect {name}"))
    for flag in (
        "teacher STR   (default embedded)",
        "base_url STR",
        "api_key_var STR",
        "request_timeout_s FLOAT",
    ):
        assert f"--{flag}" in text
    assert "--request_attempts INT   (default 4)" in text
    assert f"--concurrency INT   (default 16)\n        {concurrency}" in text
    assert f"--model STR   (default {model})" in text
    assert "--flags" not in text
