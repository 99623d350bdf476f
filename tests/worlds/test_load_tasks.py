"""Where tasks come from, and what is said when they cannot be had."""

import builtins
import json
import sys

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.worlds import load_tasks

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


def test_the_mini_benchmark_has_a_name_for_each_split():
    assert [task.row for task in load_tasks("mini:test", num_tasks=30, seed=4)] == mini.generate(
        "test", 30, seed=4
    )
    assert len(load_tasks("mini:test")) == 500
    tasks = load_tasks("mini:train", num_tasks=100)
    assert len({task.task_id for task in tasks}) == 100


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.jsonl", r"'nowhere.jsonl' is no file that exists.*mini:train.*collaborative_agent_bench"),
        (".", "'.' is a folder"),
        ("mini:valid", "Use 'mini:train', 'mini:dev' or 'mini:test'"),
        ("mini", "Use 'mini:train', 'mini:dev' or 'mini:test'"),
        (f"{HUB}:dev", "splits 'test' and 'train', not 'dev'"),
    ],
)
def test_a_source_that_does_not_exist_is_named_with_what_would_work(source, message):
    with pytest.raises(UsageError, match=message):
        load_tasks(source)


def test_a_negative_limit_is_refused(task_file):
    with pytest.raises(UsageError, match="got -1"):
        load_tasks(str(task_file), num_tasks=-1)


def test_a_wrong_row_is_named_by_its_line(task_file):
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
    real_import = builtins.__import__

    def refuse(name, *args, **options):
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'sweet_rl\[hub\]'"):
        load_tasks(HUB)
