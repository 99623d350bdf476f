"""Programs written against the published functions: answers graded in the sandbox, pages drawn in a browser."""

import importlib
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl import utils
from sweet_rl.browsers import RenderFailed
from sweet_rl.errors import DataError, UsageError
from sweet_rl.types import Failure
from sweet_rl.utils import code_utils, webpage_utils
from sweet_rl.utils.code_utils import code_evaluate
from sweet_rl.utils.webpage_utils import extract_html_snippet, get_driver, render_full_html, replace_urls

ADD = "def add(a, b):\n    return a + b"
TASK = {"ground_truth": ADD, "test_cases": {"one": "add(1, 2)", "two": "add(0, 0)"}}


def row(answer, **task):
    return {"task": TASK | task, "answer": answer}


def test_code_evaluate_gives_shares_in_order():
    rows = [
        row(ADD),
        row("def add(a, b):\n    return 3"),
        row("import os\n" + ADD),
        row(ADD, test_cases={}),
        row(None),
    ]
    assert code_evaluate(rows) == [1.0, 0.5, 0.0, 0.0, 0.0]
    helper = row("def plus(a, b):\n    return a + b\ndef add(a, b):\n    return plus(a, b)")
    assert code_evaluate([helper]) == [0.0]  # as published: a helper is not visible
    assert code_evaluate([helper], grading="fixed") == [1.0]
    assert code_evaluate([]) == []


def test_code_evaluate_looks_at_what_it_grades_alone():
    others = {"problem_description": {"asked": 1}, "hidden_information": None, "task_id": 5, "more": [1]}
    assert code_evaluate(iter([row(ADD, **others), row("", problem_description=None)])) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (1, "trajectories, line 2: must be an object with task and answer, got 1"),
        ({"answer": ADD}, "line 2: field 'task' must be an object, got None"),
        ({"task": None, "answer": ADD}, "line 2: field 'task' must be an object, got None"),
        ({"task": TASK}, "line 2: field 'answer' must be a text or None, got None"),
        (row(5), "line 2: field 'answer' must be a text or None, got 5"),
        (row([ADD]), "line 2: field 'answer' must be a text or None"),
        (row(ADD, ground_truth=None), "line 2: field 'ground_truth' must be a string, got None"),
        (row(ADD, test_cases={"one": 3}), "line 2: field 'test_cases.one' must be a Python expression"),
    ],
)
def test_what_is_no_trajectory_is_named(wrong, says):
    with pytest.raises(DataError, match=says):
        code_evaluate([row(ADD), wrong])


def test_a_way_of_grading_that_is_not_there_is_named():
    with pytest.raises(UsageError, match="no way of grading 'odd'"):
        code_evaluate([row(ADD)], grading="odd")


def test_code_evaluate_gives_the_recorded_numbers(shared):
    folder = shared / "goldens/sweet_rl/a_evaluate"
    batch = json.loads((folder / "expected.json").read_text())["batch_of_non_crashing"]
    rows = {
        one["id"]: one for one in map(json.loads, (folder / "trajectories.jsonl").read_text().splitlines())
    }
    given = code_evaluate([rows[name] for name in batch["ids"]])
    assert given == pytest.approx(batch["values"])


def test_an_answer_cannot_touch_the_program_that_grades_it(tmp_path):
    left = tmp_path / "left"
    evil = f"open({str(left)!r}, 'w').write('x')\n" + ADD
    ends = "raise SystemExit\n" + ADD
    assert code_evaluate([row(evil), row(ends), row(ADD)])[1:] == [0.0, 1.0]
    assert not left.exists()


@pytest.mark.parametrize("name", ["sweet_rl.utils.code_utils", "sweet_rl.utils.code_evaluate"])
def test_the_function_is_the_same_under_all_its_names(name):
    assert (
        importlib.import_module(name).code_evaluate
        is code_evaluate
        is utils.code_evaluate
        is code_utils.code_evaluate
    )


def test_the_names_are_found_in_a_program_and_loaded_only_when_asked_for():
    code = (
        "import sys, sweet_rl; assert 'sweet_rl.utils' not in sys.modules\n"
        "from sweet_rl.environments.human_interaction_env import HumanInteractionEnv\n"
        "from sweet_rl.environments.human_design_interaction_env import HumanDesignInteractionEnv\n"
        "from sweet_rl.models.vllm_agent import VLLMAgent\n"
        "from sweet_rl.utils import code_evaluate\n"
        "assert issubclass(HumanDesignInteractionEnv, HumanInteractionEnv)\n"
        "assert not {'torch', 'transformers', 'openai', 'vllm', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pages_are_found_in_texts():
    text = "Here: <html><img src='https://picsum.photos/20/30'></html> So?"
    page = "<html><img src='https://picsum.photos/id/48/20/30'></html>"
    assert extract_html_snippet(text) == ("Here: [SEE RENDERED HTML] So?", page)
    assert extract_html_snippet("no page") == ("no page", None)
    assert replace_urls("https://picsum.photos/1/2") == "https://picsum.photos/id/48/1/2"


class Renderer:
    """A rendering service that draws one page, refuses another, and knows whether it was closed."""

    closed = False

    async def render(self, html):
        if "bad" in html:
            raise RenderFailed(Failure("timeout", "too slow"))
        return type("Page", (), {"image": b"PNG"})

    async def close(self):
        self.closed = True


@pytest.fixture
def services(monkeypatch):
    opened = []

    def open_one():
        opened.append(Renderer())
        return opened[-1]

    monkeypatch.setattr(webpage_utils, "open_renderer", open_one)
    return opened


def test_drivers_share_browsers_which_end_with_the_last(services, tmp_path):
    first, second = get_driver(), get_driver()
    assert len(services) == 1
    one = render_full_html(first, "<html></html>", str(tmp_path / "new" / "folder"), 7)
    assert Path(one).parent == tmp_path / "new/folder"
    assert Path(one).name.startswith("7_")
    assert Path(one).read_bytes() == b"PNG"
    assert render_full_html(second, "<html></html>", str(tmp_path), 7) != one
    with pytest.warns(UserWarning, match="A page of environment 0 has no picture: timeout: too slow"):
        assert render_full_html(first, "<html>bad</html>", str(tmp_path)) is None
    with pytest.warns(UserWarning, match="no picture: empty: a page is a text, got None"):
        assert render_full_html(first, None, str(tmp_path)) is None
    first.quit()
    assert not services[0].closed
    second.quit()
    second.quit()
    assert services[0].closed
    with pytest.raises(RuntimeError, match="This driver was quit"):
        render_full_html(first, "<html></html>", str(tmp_path))
    get_driver().quit()
    assert [service.closed for service in services] == [True, True]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on the PATH")
def test_a_real_page_is_drawn(tmp_path):
    driver = get_driver()
    try:
        path = render_full_html(driver, "<html><body style='height:900px'>Hello</body></html>", str(tmp_path))
    finally:
        driver.quit()
    width, height = struct.unpack(">2I", Path(path).read_bytes()[16:24])
    assert width == 1366
    assert height >= 900
