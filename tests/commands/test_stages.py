"""Commands as functions of dataclasses: their flags, their help, their completion, in any world."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from sweet_rl import worlds
from sweet_rl.cli.main import COMMANDS, help_text, load, stages
from sweet_rl.cli.parse import Options, read, stage_flags, values_of
from sweet_rl.cli.stage import needing, stage
from sweet_rl.commands.worlds import generate_tasks, serve_simulator
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Settings, flag, flags_of, group
from sweet_rl.online.reflect.settings import ReflectFlags, ReflectSettings
from sweet_rl.online.settings import ArcherSettings, LoopSettings
from sweet_rl.pipelines.preflight import servers_of
from sweet_rl.pipelines.steps import Step
from sweet_rl.worlds import names, world_of
from sweet_rl.worlds.backend_programming.world import BackendProgramming


@group("How it is outside")
class FaultProfile(Settings):
    warmth: float = flag(20.0, "degrees.", at_least=-50, below=60)
    wind: int | None = flag(None, "knots.", at_least=0, aliases=("breeze",), shown="all")
    sky: Literal["blue", "grey"] = flag("blue", "its colour.")
    moon: bool = flag(False, "of no effect.", shown="never")


@group("A day in a place")
class Day(FaultProfile):
    place: str = flag(REQUIRED, "where.")
    length: str = flag("24", "hours, or all of them where it stands alone.", bare="all", formerly=("hours",))


@dataclass(frozen=True, kw_only=True)
class Lake(Settings):
    """What a lake is told."""

    depth: int = flag(3, "metres.", above=0)


@dataclass(frozen=True, kw_only=True)
class Forest(Settings):
    """What a forest is told."""

    trees: int = flag(9, "how many.", choices=(9, 99))
    owls: bool = flag(False, "at night.")


PLACES = {"lake": Lake, "forest": Forest, "desert": None}


def place_of(name):
    if name not in PLACES:
        raise UsageError(f"there is no place {name}")
    return PLACES[name]


told = []


@stage("place", defaults={"wind": 3}, helps={"warmth": "in the shade."})
def day(settings: Day, /) -> None:
    """A day."""
    told.append(settings)


@stage("place", options=Options("place", place_of, lambda: PLACES))
def visit(settings: Day, options: object, /) -> None:
    """Go somewhere."""
    told.append((settings, options))


def run(function, line):
    told.clear()
    typed = read(function, line.split())
    function(**values_of(function, typed))
    return told[0]


def test_fields_are_flags_in_signature_and_call():
    flags = inspect.signature(day).parameters
    assert list(flags) == ["place", "length", "warmth", "wind", "sky", "moon"]
    defaults = [flags[name].default for name in ("warmth", "wind", "place")]
    assert defaults == [20.0, 3, inspect.Parameter.empty]
    assert flags["wind"].annotation == "int | None"
    assert run(day, "hill") == Day(place="hill", wind=3)
    whole = Day(place="hill", wind=7, length="all", moon=True)
    assert run(day, "--place=hill --breeze 7 --length --moon") == whole
    assert run(day, "hill --hours") == run(day, "hill --length all")
    day("hill", breeze=1)
    assert told[-1].wind == 1
    with pytest.raises(TypeError, match="rain"):
        day("hill", rain=1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"warmth": -51}, "--warmth must be at least -50 and below 60, got -51"),
        ({"warmth": 60.0}, "below 60, got 60.0"),
        ({"warmth": float("nan")}, "--warmth must be"),
        ({"wind": -1}, "--wind must be at least 0, got -1"),
        ({"sky": "red"}, "--sky must be blue or grey, got 'red'"),
    ],
)
def test_a_value_out_of_range_is_refused_by_whoever_builds_the_settings(given, says):
    with pytest.raises(UsageError, match=says):
        Day(place="hill", **given)
    with pytest.raises(UsageError, match=says):
        day("hill", **given)


def test_help_is_grouped_short_or_whole_and_silent_about_what_does_nothing():
    short, whole = help_text("day", day, whole=False), help_text("day", day)
    for text in (
        "A day in a place:\n  --place STR   (required)\n        where.",
        "How it is outside:\n  --warmth FLOAT   (default 20.0; at least -50 and below 60)\n        in the shade.",
        *("--sky blue|grey   (default blue)", "1 more flag, whose defaults suit most uses: --help-all."),
    ):
        assert text in short
    assert short.startswith("usage: sweet-rl day PLACE [--flag value ...]")
    assert "wind" not in short
    assert "--wind INT   (default 3; at least 0; also --breeze)" in whole
    assert "--moon" not in short + whole
    assert "--hours" not in whole
    with pytest.raises(UsageError, match="did you mean --warmth"):
        read(day, ["hill", "--warmt", "3"])


def test_options_of_what_is_named_join_the_flags():
    assert run(visit, "lake --depth 5") == (Day(place="lake"), Lake(depth=5))
    assert run(visit, "forest --owls --trees 99") == (Day(place="forest"), Forest(trees=99, owls=True))
    assert run(visit, "desert") == (Day(place="desert"), None)
    assert "--trees 9|99" in help_text("visit", visit, arguments=["forest"])
    assert "--trees" not in help_text("visit", visit, arguments=["lake"])
    visit("lake", depth=4)
    assert told[-1][1] == Lake(depth=4)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lake --trees 9", "--trees belongs to the place forest, and this is lake. Leave it out."),
        ("desert --depth 9", "--depth belongs to the place lake, and this is desert"),
        ("lake --depht 9", r"unknown flag --depht \(did you mean --depth"),
        ("forest --trees 10", "--trees must be 9 or 99, got 10"),
        ("moon", "there is no place moon"),
    ],
)
def test_an_option_of_another_is_refused(line, says):
    with pytest.raises(UsageError, match=says):
        run(visit, line)
    if "trees 9" in line:
        with pytest.raises(UsageError, match="--trees belongs to the place forest"):
            visit("lake", trees=9)


def test_what_no_text_is_read_as_is_no_flag():
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Settings):
        """Wrong."""

        many: list[str] = field(default_factory=list)

    with pytest.raises(TypeError, match="a flag is text, a number, a switch"):
        Wrong()


def test_every_stage_says_its_help_and_no_name_twice_and_has_no_flags_in_its_signature():
    words = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
    for name in stages():
        parameters = inspect.signature(inspect.unwrap(load(name))).parameters.values()
        assert {one.kind for one in parameters} <= words, name
        flags = stage_flags(load(name))
        names = [each for one in flags for each in (one.name, *one.aliases)]
        assert len(set(names)) == len(names), name
        assert all(one.help.strip() for one in flags), name


def test_a_missing_package_is_named_and_other_failures_stay_as_they_are():
    @needing(frozenset({"no_such_package"}), "training", needed_for="this")
    def work(package):
        __import__(package)

    with pytest.raises(UsageError, match=r"this needs the package 'no_such_package'.*sweet_rl\[training\]"):
        work("no_such_package")
    with pytest.raises(ModuleNotFoundError, match="another"):
        work("another_missing_package")


OTHERWISE = {
    "port": "where we listen, always a number; and where a server is asked, perhaps nowhere",
    "batch_size": "pieces in work; and of cloning, turns of a mean, by default as suits the policy",
    "learning_rate": "of training; and of cloning, by default as suits the policy",
    "model": "of a teacher, a server's name for it; and of an evaluation, with what runs it",
    "output_path": "what is written, which has to be said; and of scores, by default beside the trajectories",
    "json": "of a run, what its record says; and of a row, what is learned",
    "file": "of a pipeline; and of a model that is fetched",
    "trajectories": "of candidates, what they were sampled for; and of a trainer's rows, what they were made of",
    "judge": "a chat model that gives turns a number; and one that sees pages",
    "agent": "the engine that runs the agent; and the policy that a method of credit asks about texts",
    "oracle_of": "the world whose oracle checks pairs; and that whose oracle is a method of credit",
    "demonstrations": "a teacher's file; and of a study, how many it makes",
    "max_tokens_per_batch": "of training none is the usual; of cloning there is always one",
}
"""Names that mean two things, each said once."""


def declared():
    """Who declares a flag, by its name. A world's options are its own; ArCHer's and Reflect-RL's are published tables."""
    for name in stages():
        load(name)
    tables = {options for world in map(world_of, names()) for options in world.options.__mro__}
    tables |= {ReflectFlags, ReflectSettings, ArcherSettings, LoopSettings}
    owners = {}
    todo = [Settings]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__module__.startswith("sweet_rl.") and (kind not in tables or "flags" in kind.__module__):
            own = {one.name for one in flags_of(kind)} if kind is not Settings else set()
            for name in own & set(vars(kind).get("__annotations__", ())):
                owners.setdefault(name, set()).add(kind)
    return owners


def test_a_flag_is_declared_once():
    repeats = {name: kinds for name, kinds in declared().items() if len(kinds) > 1}
    assert repeats.keys() == OTHERWISE.keys(), repeats
    assert all(len(kinds) == 2 for kinds in repeats.values())


def test_the_list_of_any_world_becomes_a_file(tmp_path):
    out = tmp_path / "tasks.jsonl"
    generate_tasks(str(out), source="lantern:test", num_tasks=3)
    names = [json.loads(row)["task_id"].partition("/")[0] for row in out.read_text().splitlines()]
    assert names == ["lantern"] * 3


def test_a_world_without_a_human_cannot_be_served():
    with pytest.raises(UsageError, match="html has no human that reads what it knows from a prompt"):
        serve_simulator(world="html", port=0)


@pytest.mark.parametrize("name", ["prepare_websight", "filter_websites", "judge_html", "serve_shop"])
def test_a_stage_of_one_world_is_listed_by_that_world(name):
    assert name in stages()
    assert name not in COMMANDS
    assert load(name).__module__ == worlds.stages()[name].place.partition(":")[0]


class Shouting(BackendProgramming):
    """Functions, wanted by a human that another server plays."""

    user = replace(BackendProgramming.user, server="shout --port 1")


SHOUTING = Shouting()


@pytest.mark.parametrize(
    ("world", "line"),
    [("code", "serve_human_70b"), ("html", "serve_human_72b"), (f"{__name__}:SHOUTING", "shout --port 1")],
)
def test_a_world_says_how_the_server_of_its_human_is_started(world, line):
    flags = {"world": world, "input_path": "mini:test", "output_path": "r.jsonl"}
    flags |= {"env_model": "auto", "hostname": "h"}
    (human,) = servers_of(Step("talks", "simulate_interactions", flags=flags), late=False)
    assert line in human.start.partition("or there: ")[2]
