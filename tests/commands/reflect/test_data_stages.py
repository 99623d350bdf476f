"""The data stages as they are typed: the whole pipeline from nothing, a teacher over HTTP, trouble, resuming."""

import json
import os
import re
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sweet_rl.chat.reflect_format import split_prompt
from sweet_rl.commands.reflect_evaluate import evaluate_gpt
from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.mini.repositories import make_repository
from sweet_rl.types import Message, Observation, StepResult, StopReason
from sweet_rl.users.protocol import FaultProfile
from sweet_rl.worlds import Learning, Scores, World
from sweet_rl.worlds.alfworld.data import alfworld_gen_sft, alfworld_reflection
from sweet_rl.worlds.auto_explore.data_tasks import filter_repo, gen_task
from sweet_rl.worlds.auto_explore.data_texts import (
    auto_explore_gpt,
    gen_sft,
    reflection_negative,
    success_by_level,
)
from sweet_rl.worlds.auto_explore.tasks import filter_task, split_data
from sweet_rl.worlds.dangerous_taxi.data import taxi_gen_sft, taxi_reflection
from tests.reflect_data.serving import talking

TASKS = Path("data/auto_explore/tasks_filtered")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder with three small repositories."""
    monkeypatch.chdir(tmp_path)
    for name in ("service-1", "service-2", "service-3"):
        for path, text in make_repository(name).files.items():
            file = tmp_path / "repos" / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return tmp_path


def load(path):
    return json.loads(Path(path).read_text())


def texts(path):
    return [json.loads(line)["text"] for line in Path(path).read_text().split("\n")]


def up_to_tasks():
    filter_repo("repos")
    gen_task(quiet=True)
    filter_task("data/auto_explore/tasks/")


def test_without_the_published_archive_there_are_made_repositories(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gen_task(quiet=True)
    assert "repos_filtered was not there: 11 made repositories" in capsys.readouterr().out
    names = {path.name for path in Path("data/auto_explore/repos_filtered").iterdir()}
    assert len(names) == 11  # and no record, which could be taken for one
    assert {task["root"] for task in load("data/auto_explore/tasks/data.json")} == names


def test_the_published_commands_in_order(here, capsys):
    up_to_tasks()
    reflection_negative(quiet=True)
    split_data(str(TASKS / "data_reflection_negative.json"))
    gen_sft(str(TASKS / "train.json"), quiet=True)
    auto_explore_gpt(eval_reps=2, depth_curriculum=True, quiet=True)
    said = capsys.readouterr().out

    tasks = load("data/auto_explore/tasks/data.json")
    assert len(tasks) > 20
    assert {task["root"] for task in tasks} == {"service-1", "service-2", "service-3"}
    complete = load(TASKS / "data_reflection_negative.json")
    found = [one for task in complete for one in task["trajectories"] if one["info"] == "positive"]
    assert len(found) == len(complete)
    assert all(one["filename"] == task["filename"] for task, one in zip(complete, found, strict=True))
    sizes = [len(load(TASKS / f"{name}.json")) for name in ("train", "validate", "test")]
    assert sum(sizes) == len(complete)
    assert abs(sizes[0] - 0.7 * len(complete)) <= 1
    for name in ("sft", "sft_reflection", "sft_policy", "sft_reflection_positive", "sft_policy_positive"):
        assert texts(TASKS / f"{name}.jsonl"), name
    assert "Measured: the embedded player, which sees what a model sees" in said
    assert "no model was asked. To measure one: --teacher openai" in said
    assert "Level 0: 100.00%" in said
    result = load("results/auto_explore_gpt.json")[0]
    assert (result["success"], result["player"]) == (1, "embedded")


def test_the_same_seed_gives_the_same_files(here):
    up_to_tasks()
    reflection_negative(quiet=True, concurrency=1)
    one = (TASKS / "data_reflection_negative.json").read_bytes()
    reflection_negative(quiet=True, overwrite=True, concurrency=9)
    assert (TASKS / "data_reflection_negative.json").read_bytes() == one
    reflection_negative(quiet=True)  # nothing is missing
    assert (TASKS / "data_reflection_negative.json").read_bytes() == one


def test_the_taxis_data(here, capsys):
    taxi_reflection(num_records=30, quiet=True)
    taxi_gen_sft()
    assert len(load("data/taxi/data_reflection.json")) == 30
    assert len(texts("data/taxi/sft.jsonl")) == len(texts("data/taxi/sft_policy.jsonl")) == 30
    published = "data/taxi/published"
    taxi_gen_sft(compat="published", output=published)
    assert all(text.startswith("--- Current State ---") for text in texts(f"{published}/sft.jsonl"))
    taxi_reflection(num_records=3, random_share=0.0, quiet=True)
    taxi_reflection(num_records=3, reflections=False, quiet=True)
    assert len(load("data/taxi/data_reflection_oracle.json")) == 3
    assert [record["reflection"] for record in load("data/taxi/data.json")] == [""] * 3
    assert "30 records are in data/taxi/data_reflection.json" in capsys.readouterr().out


def expert(prompt):
    """A model that finds its way by the names of files, and now and then says something useless."""
    offered = dict(re.findall(r"^(\w+)\. (.+)$", prompt, re.MULTILINE))
    if not offered:
        return "Let me think about it."
    expert.calls += 1
    if expert.calls % 7 == 0:
        return "I cannot decide."
    for wanted in ("id README.md", "cat README.md"):
        label = next((label for label, command in offered.items() if command == wanted), None)
        if label and (wanted.startswith("cat") or "cat README.md" not in offered.values()):
            return f"{label}."
    return next(iter(offered))


def test_a_teacher_over_http_and_what_it_says_wrongly(here, capsys):
    up_to_tasks()
    tasks = [task for task in load(TASKS / "data.json") if task["filename"] == "README.md"][:4]
    (TASKS / "few.json").write_text(json.dumps(tasks))
    flags = {"task_file": str(TASKS / "few.json"), "teacher": "openai", "model": "m", "quiet": True}
    expert.calls = 0
    with talking(expert) as url:
        reflection_negative(base_url=url, **flags)
        calls = expert.calls
        reflection_negative(base_url=url, **flags)
        assert expert.calls == calls  # all is there
    complete = load(TASKS / "data_reflection_negative.json")
    right = [task["trajectories"][0] for task in complete]
    assert {one["model_name"] for one in right} == {"m"}
    assert {one["filename"] for one in right} == {"README.md"}
    assert {step["reflection"] for one in right for step in one["trajectory"]} == {"Let me think about it."}
    journal = (TASKS / "data_reflection_negative.m.journal.jsonl").read_text()
    assert '"kind": "malformed_reply", "detail": "I cannot decide."' in journal
    assert "malformed_reply" in capsys.readouterr().out


def test_a_dead_server_stops_the_run_and_another_goes_on(here):
    flags = {"num_records": 12, "teacher": "openai", "model": "m", "quiet": True, "request_attempts": 1}
    calls = []

    def few(prompt):
        calls.append(prompt)
        return "The passenger waits."

    with talking(few) as url:
        taxi_reflection(base_url=url, **{**flags, "num_records": 4})
        asked = len(calls)
    with pytest.raises(ServiceError, match=r"No server answers at .* --base_url names .* --model") as caught:
        taxi_reflection(base_url=url, server_wait_s=0, **flags)
    assert "serve_simulator" not in str(caught.value)
    with talking(few) as url:
        taxi_reflection(base_url=url, **flags)
    records = load("data/taxi/data_reflection.json")
    assert len(records) == 12
    assert {record["reflection"] for record in records} == {"The passenger waits."}
    assert len(calls) == len(set(calls)) or asked < len(calls)
    assert not any(split_prompt(prompt, "\nThe actions you can take now is:").after for prompt in calls)


def test_a_polite_kill_says_how_to_go_on_and_loses_nothing(here, capsys):
    calls = []

    def killing(prompt):
        calls.append(prompt)
        if len(calls) == 12:
            os.kill(os.getpid(), signal.SIGTERM)
        return "The passenger waits."

    flags = {"num_records": 40, "teacher": "openai", "model": "m", "quiet": True, "concurrency": 1}
    with talking(killing) as url:
        with pytest.raises(KeyboardInterrupt):
            taxi_reflection(base_url=url, **flags)
        assert "The same command resumes" in capsys.readouterr().err
        assert not Path("data/taxi/data_reflection.json").exists()
        assert len(calls) < 20
        taxi_reflection(base_url=url, **flags)
    assert len(load("data/taxi/data_reflection.json")) == 40
    replies = Path("data/taxi/data_reflection.m.replies.jsonl").read_text().splitlines()
    assert len(replies) == len({json.loads(line)["request"] for line in replies})
    assert len(calls) <= len(replies) + 1  # the request that was cut short


def test_households_over_the_real_engine(here):
    pytest.importorskip("alfworld")
    alfworld_reflection(num_records=6, quiet=True)
    alfworld_gen_sft()
    records = load("data/alfworld/data_reflection.json")
    assert len(records) == 6
    assert all("Tomato-None-Microwave" in record["problem"] for record in records)
    assert all("put some tomato in microwave" in record["reflection"] for record in records)
    assert len(texts("data/alfworld/sft_reflection.jsonl")) == 6


def test_gen_task_over_http_tries_again_what_could_not_be_read(here, capsys):
    filter_repo("repos")
    replies = iter(["nonsense"] * 1000)
    with talking(lambda _: next(replies)) as url:
        gen_task(teacher="openai", base_url=url, model="m", quiet=True)
    assert load("data/auto_explore/tasks/data.json") == []
    assert "files are missing; the same command tries them again" in capsys.readouterr().out
    with talking(lambda _: "- QUERY1: What?\n- ANSWER1: 7") as url:
        gen_task(teacher="openai", base_url=url, model="m", quiet=True)
    assert {task["answer"] for task in load("data/auto_explore/tasks/data.json")} == {"7"}


@pytest.mark.parametrize("scenario", ["taxi", "auto_explore"])
def test_an_episode_without_a_service_is_no_failure_of_the_model(here, capsys, scenario):
    """Half of the requests get a 500, and each is sent once: what a model is measured by does not depend on it."""
    if scenario == "auto_explore":
        up_to_tasks()

    def measure(**flags):
        asked = {"teacher": "openai", "model": "m", "request_attempts": 1, "quiet": True} | flags
        if scenario == "taxi":
            evaluate_gpt(runs=12, react=False, output=flags.pop("output", "."), **asked)
        else:
            asked.pop("output", None)
            auto_explore_gpt(task_file=str(TASKS / "data.json"), eval_reps=1, horizon=1, markov=True, **asked)

    stormy = FaultProfile(fault_rate=0.5, faults="server_error", seed=1)
    with talking(lambda _: "Action: 0", stormy) as url, pytest.raises(ServiceError) as caught:
        measure(base_url=url)
    assert "they have no score and are in no mean" in str(caught.value)
    assert "more than --max_failed 0.02 allows" in str(caught.value)
    capsys.readouterr()
    with talking(lambda _: "Action: 0") as url:
        measure(base_url=url)  # plays those again that failed
    assert "have no score" not in capsys.readouterr().out
    if scenario == "taxi":
        assert "success 0/12" in Path("result.txt").read_text().splitlines()[-1]
    else:
        assert {row["failed"] for row in load("results/auto_explore_gpt.json")} == {0}


def test_models_play_the_taxi(here, capsys):
    evaluate_gpt(runs=5, quiet=True)
    evaluate_gpt(runs=5, extra="dropoff", random=True, quiet=True)
    with talking(lambda prompt: "Action: 0") as url:
        evaluate_gpt(runs=5, extra="full", teacher="openai", base_url=url, model="m", quiet=True)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Measured")]
    measured = ["Measured: the embedded player", "Measured: chance", f"Measured: the model m at {url}."]
    assert [line.partition(",")[0] for line in said] == measured
    lines = Path("result.txt").read_text().splitlines()
    assert lines[0].startswith("taxi pickup embedded: success 5/5")
    assert lines[1].startswith("taxi dropoff random: success")
    assert lines[2].startswith("taxi full m: success 0/5")
    episodes = Path("result_episode.txt").read_text().splitlines()
    assert len(episodes) == 15
    evaluate_gpt(runs=5, quiet=True)
    assert Path("result.txt").read_text().splitlines() == lines
    evaluate_gpt(runs=6, quiet=True)
    *before, added = Path("result_episode.txt").read_text().splitlines()
    assert before == episodes
    assert added.startswith("taxi pickup embedded run 5: reward ")


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: taxi_reflection(teacher="me"), "--teacher must be embedded or openai"),
        (lambda: taxi_reflection(teacher="openai"), "needs --base_url"),
        (lambda: evaluate_gpt(base_url="http://127.0.0.1/v1"), "of use with --teacher openai only"),
        (lambda: auto_explore_gpt(model="gpt-5"), "--model is of use with --teacher openai only"),
        (lambda: taxi_gen_sft(), "There is no file"),
        (lambda: filter_repo("nowhere"), "There is no folder"),
        (lambda: gen_task(repo_dir="nowhere", quiet=True), "There is no folder"),
        (lambda: filter_task("repos"), "no .json file"),
        (lambda: evaluate_gpt(scenario="chess"), "There is no world 'chess'"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_made(here, work, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        work()
    assert not Path("data/taxi").exists()


def test_a_world_that_cannot_be_measured_so_says_why(here):
    for flags, message in (
        ({"scenario": "auto_explore"}, "auto_explore has no expert"),
        ({"scenario": "lantern", "random": True}, "lantern has no labels"),
        ({"scenario": "alfworld", "extra": "full"}, "--extra belongs to the world dangerous_taxi"),
    ):
        with pytest.raises(UsageError, match=message):
            evaluate_gpt(runs=1, quiet=True, **flags)
    evaluate_gpt(runs=2, scenario="auto_explore", random=True, quiet=True)  # chance plays any world of labels
    assert Path("result.txt").read_text().startswith("auto_explore random: success 0/2")


def test_a_file_that_holds_no_records_is_named(here):
    for content in ("{", '{"a": 1}', "[1]", "[NaN]"):
        Path("tasks.json").write_text(content)
        with pytest.raises(DataError, match=r"tasks\.json"):
            split_data("tasks.json")


def test_success_is_counted_by_level():
    levels = [dict.fromkeys(("a", "b", "c", "d")), {"e": None}, {}]
    played = {key: {"won": key in {"a", "e"}} for key in "abce"}  # d has failed
    assert success_by_level(levels, played) == [
        {"level": 0, "episodes": 3, "failed": 1, "success": 1 / 3},
        {"level": 1, "episodes": 1, "failed": 0, "success": 1.0},
        {"level": 2, "episodes": 0, "failed": 0, "success": None},
    ]


def test_overwriting_copies_leaves_what_is_no_copy(here):
    for place in ("repos/.git", "data/auto_explore/repos_filtered/.git"):
        (here / place).mkdir(parents=True)
    filter_repo("repos")
    with pytest.raises(UsageError, match="repos_filtered/service-1' exists; pass --overwrite"):
        filter_repo("repos")
    filter_repo("repos", overwrite=True)
    assert (here / "data/auto_explore/repos_filtered/.git").is_dir()
    (here / "data/auto_explore/repos_filtered/service-1/mine.md").write_text("x")
    with pytest.raises(UsageError, match="--output lies in 'repos/service-1'"):
        filter_repo("repos", output="repos/service-1", overwrite=True)


class Switch:
    """Wants 1."""

    async def reset(self, task, *, seed):
        said = Message("user", "Say 1.\nActions:\n0. off\n1. on")
        self.seen = Observation(task.task_id, (said,), seed)
        return self.seen

    async def step(self, text):
        won = text == "1"
        ended = StopReason.ENDED if won else StopReason.TURN_LIMIT
        return StepResult(text, text, self.seen, float(won), won, not won, ended)

    async def close(self):
        pass


class Switches(World):
    """One switch."""

    name, max_turns = "switches", 1
    learning = Learning(head="\nActions:", labels=("0", "1"))
    scores = Scores(success_return=0.0)

    def rows(self, source, where, *, limit, seed):
        return [{"task_id": "switches/0", "problem_description": "x", "ground_truth": "1"}]

    @asynccontextmanager
    async def open(self, options, user):
        yield Switch


SWITCHES = Switches()


def test_a_model_plays_a_world_of_ones_own(here):
    evaluate_gpt(world=f"{__name__}:SWITCHES", runs=20, random=True, quiet=True)
    won = int(re.search(r"success (\d+)/20", Path("result.txt").read_text())[1])
    assert 3 < won < 17
