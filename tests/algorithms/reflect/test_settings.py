"""The 75 published flags, their defaults and how they are typed; the curriculum's schedule."""

import pytest

from sweet_rl.algorithms.reflect.schedule import Schedule, starts_of, thirds
from sweet_rl.algorithms.reflect.settings import PUBLISHED, ReflectSettings
from sweet_rl.commands.reflect.flags import reflect_stage
from sweet_rl.errors import UsageError
from tests.algorithms.reflect.tiny import golden


@reflect_stage(mode="test")
def stage(flags: ReflectSettings, /, report: "str | None" = None) -> None:
    """A stage.

    Args:
        report: a file.
        flags: the published ones.
    """
    stage.got = (report, flags)


def rewrite(*words):
    return stage.rewrite_arguments(list(words))


def test_names_and_defaults_are_the_published_ones(shared):
    recorded = golden(shared, "data_and_cli")["cli_flags"]
    assert set(PUBLISHED) == {flag["name"] for flag in recorded}
    assert len(PUBLISHED) == 75
    settings = ReflectSettings()
    for flag in recorded:
        assert getattr(settings, flag["name"]) == flag["default"], flag["name"]
        annotation = ReflectSettings.__dataclass_fields__[flag["name"]].type
        kind = "float" if flag["name"] == "weight_decay" else annotation.partition(" ")[0]
        assert kind in flag["type"] or flag["name"] == "weight_decay", flag["name"]


def test_every_flag_has_its_line_of_help():
    from sweet_rl.cli import help_text

    text = help_text("stage", stage)
    for name in ("report", *ReflectSettings.__dataclass_fields__):
        assert f"--{name}" in text
    assert "--flags" not in text


@pytest.mark.parametrize(
    ("words", "rewritten"),
    [
        (["--shrink_head"], ["--shrink_head=True"]),
        (["--no_shrink_head"], ["--shrink_head=False"]),
        (["--shrink_head=False"], ["--shrink_head=False"]),
        (["--shrink_head", "no"], ["--shrink_head=False"]),
        (["--no_use_8bit"], ["--use_8bit=False"]),
        (["--reflect"], ["--reflect=True"]),
        (["--reflect=yes"], ["--reflect=True"]),
        (["--temperature", "0.5"], ["--temperature=0.5"]),
        (["--reflect_load", "x"], ["--reflect_load_dir=x"]),
        (["--max-steps", "5"], ["--max_steps=5"]),
        (["--no_shrink"], ["--shrink_head=False"]),
        (["--weight_decay", "0.01"], ["--weight_decay=0.01"]),
        (["--curriculum_index", "-1"], ["--curriculum_index=-1"]),
        (["a.json", "--reflect", "b"], ["a.json", "--reflect=True", "b"]),
        (["--reflectload_dir=x"], ["--reflectload_dir=x"]),
    ],
)
def test_a_command_line_is_read_as_published(words, rewritten):
    assert rewrite(*words) == rewritten


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--re", "x"], "is not unique"),
        (["--load_dir"], "needs a value"),
        (["--load_dir", "--reflect"], "needs a value"),
        (["--reflect=maybe"], "true or false"),
        (["--strict", "--weight_decay", "0.01"], "whole number in the published"),
    ],
)
def test_what_cannot_be_read_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        rewrite(*words)


def test_an_unknown_flag_is_refused_with_a_suggestion():
    from sweet_rl.command_line import read

    with pytest.raises(UsageError, match="did you mean --reflect_load_dir"):
        read(stage, rewrite("--reflectload_dir=x"))


def test_values_reach_the_stage():
    stage(report="r", max_steps=3)
    assert stage.got == ("r", ReflectSettings(mode="test", max_steps=3))


@pytest.mark.parametrize("wrong", [{"env": "mars"}, {"trainer": "sac"}, {"top_p": 1.5}, {"max_steps": 0}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ReflectSettings(**wrong)


def test_starts_of_levels(shared):
    data = golden(shared, "data_and_cli")
    for case in data["curriculum"]["schedules"]:
        sizes = [len(level) for level in case["levels"]]
        steps = case["args"]["max_steps"]
        assert starts_of(sizes, steps, strict=True) == case["trigger_set"]
        if steps >= sum(sizes):
            assert starts_of(sizes, steps) == case["trigger_set"]
        else:
            assert starts_of(sizes, steps) == [0, 2, 3, 3]
    for case in data["taxi_configer"]:
        assert thirds(len(case["dataset"]), case["args"]["max_steps"]) == case["trigger_set"]


def test_published_levels_that_begin_together_are_one():
    ours, published = [
        Schedule([4, 2], [0, 0], batch=2, seed=0, strict=strict).level_at(7) for strict in (False, True)
    ]
    assert (ours, published) == (1, 0)


def test_a_pass_takes_every_item_once_and_the_next_is_shuffled():
    schedule = Schedule([5, 3], [0, 6], batch=2, seed=1)
    drawn = [schedule.draw(iteration) for iteration in range(9)]
    assert [begins for begins, _, _ in drawn] == [True, *[False] * 5, True, False, False]
    first, second = ([item for _, _, items in drawn[a : a + 3] for item in items] for a in (0, 3))
    assert sorted(first) == sorted(second) == list(range(5))
    assert first != second
    assert [len(items) for _, _, items in drawn] == [2, 2, 1, 2, 2, 1, 2, 1, 2]
    assert {level for _, level, _ in drawn[6:]} == {1}


def test_a_schedule_goes_on_where_it_was():
    schedule = Schedule([7], [0], batch=2, seed=3)
    for iteration in range(5):
        schedule.draw(iteration)
    other = Schedule([7], [0], batch=2, seed=3)
    other.restore(schedule.place.state())
    assert [other.draw(i) for i in (5, 6)] == [schedule.draw(i) for i in (5, 6)]
