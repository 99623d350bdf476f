"""Worlds by name, tasks by source, and the parsers of dialogues (the goldens hold the published one to the original)."""

import asyncio
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.contracts import User
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.types import (
    ANSWER_MARKER,
    NO_ANSWER,
    Failure,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    UserReply,
    is_answer,
)
from sweet_rl.worlds import (
    AgentRequest,
    Answers,
    BaseEnv,
    World,
    all_worlds,
    first_for,
    load_tasks,
    names,
    world_of,
    world_with,
)
from sweet_rl.worlds.dialogue import OUTPUT_MARKER, parse_fixed, parse_published


def test_a_world_has_few_members_and_three_must_be_written():
    members = {name for name in (*dir(World), *World.__annotations__) if not name.startswith("_")}
    assert len(members) <= 20, sorted(members)
    three = type("Three", (World,), {"name": "three", "rows": lambda *_, **__: [], "make_env": None})()
    assert (three.tasks.test, three.tasks.sources, three.turns(three.options())) == (
        "three:test",
        ("three",),
        10,
    )
    assert three.settings(three.options(max_turns=2)) == {
        "task_type": "three",
        "max_steps": 2,
        "compat": "fixed",
    }


def test_worlds_stand_in_a_fixed_order():
    assert names() == (
        *("code", "html", "guess_my_city", "twenty_questions"),
        *("alfworld", "auto_explore", "dangerous_taxi", "detective", "lantern", "webshop"),
    )
    # behind them may stand those that another test has asked for by their place
    assert tuple(world.name for world in all_worlds())[: len(names())] == names()


def test_published_names_and_the_worlds_that_commands_begin_with():
    published = {"frontend_design": "html", "adventure": "detective", "taxi": "dangerous_taxi"}
    for name, ours in (published | {"llm_twenty_questions": "twenty_questions"}).items():
        assert world_of(name).name == ours
        assert name not in names()
    first = [first_for(one) for one in ("archer", "reflect", "as_it_is")]
    assert first == ["twenty_questions", "auto_explore", "dangerous_taxi"]


def test_a_scripted_player_says_its_name():
    for name in ("insider", "random", "expert"):
        player = asyncio.run(world_of("code").make_agent(AgentRequest(name=name, tasks=[])))
        assert player.name == name


def test_what_is_an_answer():
    assert [is_answer(one) for one in (None, "", NO_ANSWER, 3, " ", "x")] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("source", ["code", "backend_programming", "mini", "mini:train", "mini:easy:test"])
def test_a_world_is_found_by_its_name_or_by_a_list_of_its_tasks(source):
    assert world_with(source) is world_of("code")


HUB = "facebook/collaborative_agent_bench"


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in mini.generate("train", 5)))
    return path


def test_a_file_is_read_in_order_and_cut_at_the_limit(task_file):
    rows = mini.generate("train", 5)
    tasks = load_tasks(str(task_file))
    assert [task.row for task in tasks] == rows
    assert [task.row for task in load_tasks(str(task_file), num_tasks=2)] == rows[:2]
    assert load_tasks(str(task_file), num_tasks=0) == []


def test_the_published_sample_loads(shared):
    tasks = load_tasks(str(shared / "data/colbench/backend_tasks_500.jsonl"))
    assert len(tasks) == len({task.task_id for task in tasks}) == 500


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.jsonl", r"'nowhere.jsonl' does not exist.*mini:train.*collaborative_agent_bench"),
        (".", "'.' is a folder"),
        ("mini:valid", "Use 'mini:train', 'mini:dev' or 'mini:test'"),
        ("mini", "Use 'mini:train', 'mini:dev' or 'mini:test'"),
        (f"{HUB}:dev", "splits 'test' and 'train', but not 'dev'"),
    ],
)
def test_a_source_that_does_not_exist_is_named_with_what_would_work(source, message):
    with pytest.raises(UsageError, match=message):
        load_tasks(source)


def test_a_negative_limit_is_refused_and_a_wrong_row_is_named_by_its_line(task_file):
    with pytest.raises(UsageError, match="got -1"):
        load_tasks(str(task_file), num_tasks=-1)
    task_file.write_text(task_file.read_text() + '{"problem_description": 3}\n')
    with pytest.raises(DataError, match="line 6"):
        load_tasks(str(task_file))


def hub(monkeypatch, download):
    class Errors:
        class HfHubHTTPError(Exception):
            pass

    class Hub:
        hf_hub_download = staticmethod(download)

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", Errors)
    return Errors.HfHubHTTPError


@pytest.mark.parametrize(("suffix", "file"), [("", "test"), (":test", "test"), (":train", "train")])
def test_the_hub_is_asked_for_the_file_of_the_split(monkeypatch, task_file, suffix, file):
    asked = []

    def download(*args, **options):
        asked.append((args, options))
        return str(task_file)

    hub(monkeypatch, download)
    assert len(load_tasks(HUB + suffix, num_tasks=3)) == 3
    assert asked == [((HUB, f"backend_tasks/{file}.jsonl"), {"repo_type": "dataset"})]


@pytest.mark.parametrize("kind", ["os", "http"])
def test_without_network_the_message_has_the_command_to_run_elsewhere(monkeypatch, kind):
    def download(*args, **options):
        raise OSError("no route to host") if kind == "os" else http_error("403 Forbidden")

    http_error = hub(monkeypatch, download)
    command = f"hf download {HUB} backend_tasks/test.jsonl --repo-type dataset --local-dir colbench"
    with pytest.raises(UsageError) as caught:
        load_tasks(HUB)
    assert command in str(caught.value)
    assert "colbench/backend_tasks/test.jsonl" in str(caught.value)


def test_without_the_package_the_message_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"pip install 'sweet_rl\[hub\]'"):
        load_tasks(HUB)


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
def test_parsers_by_hand(text, published, fixed):
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


def test_what_a_world_says_wrongly_of_its_players_names_the_member():
    with pytest.raises(UsageError, match=r"There is no Answers.by 'guest'.*Known: world, oracle, human"):
        Answers(by="guest")

    class Unmade(World):
        name, agents = "unmade", {"waiter": {}}

    with pytest.raises(UsageError, match="unmade names a player 'waiter', and does not write `make_agent`"):
        asyncio.run(Unmade().make_agent(AgentRequest(name="waiter", tasks=[])))


class Counting(BaseEnv):
    """Says what it was told; `bye` ends it."""

    def visible(self, action):
        return action.strip()

    def info(self):
        return {"turns": self.turns}

    async def turn(self, action):
        self.answer = action
        if action == "bye":
            return self.respond(reward=1.0, terminated=True)
        return self.respond(self.visible(action) if action != "ask" else await self.ask(), reward=0.5)


TASK = Task("counting/1", "Count.", "", "", {}, {})


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        (["one ", "two"], (0.5, False, True, StopReason.TURN_LIMIT, "two", ("Count.", "one", "one", "two", "two"))),
        (["one ", "bye"], (1.0, True, False, StopReason.ENDED, "bye", None)),
        (["bye"], (1.0, True, False, StopReason.ENDED, "bye", None)),
    ],
)  # fmt: skip
def test_an_env_ends_by_itself_or_at_the_limit_and_then_does_nothing(said, ends):
    env = Counting(2)

    async def played():
        first = await env.reset(TASK, seed=3)
        return first, [await env.step(one) for one in [*said, "more"]]

    for _ in range(2):  # a reset forgets what was played
        first, (*before, last, after) = asyncio.run(played())
        assert first == Observation("counting/1", (Message("user", "Count."),), 3)
        assert all(
            (one.over, one.answer, one.content, one.output) == (False, None, "one", "one ") for one in before
        )
        shown = last.observation and tuple(message.content for message in last.observation.messages)
        assert (last.reward, last.terminated, last.truncated, last.stop_reason, last.answer, shown) == ends
        assert last.info == {"turns": len(said)}
        assert after == StepResult("more", "more", None, terminated=True, answer=said[-1], info=last.info)


def test_a_user_who_cannot_be_asked_fails_the_episode_with_its_turn():
    class Gone(User):
        name = "gone"

        async def reply(self, context):
            assert context.messages[-1] == Message("assistant", "ask")
            return UserReply("", Failure("timeout"))

    env = Counting(9, Gone())

    async def asked():
        await env.reset(TASK, seed=0)
        await env.step("one")
        await env.step("ask")

    with pytest.raises(EpisodeError) as caught:
        asyncio.run(asked())
    assert (caught.value.stop_reason, caught.value.failure) == (
        StopReason.USER_FAILED,
        Failure("timeout", turn=1),
    )
    assert asyncio.run(env.step("two")).terminated  # it broke, and is over
