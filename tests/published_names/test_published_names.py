"""Programs written against the published environments and utilities: what they are returned is what the original returned."""

import base64
import json
import re
import subprocess
import sys
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweet_rl.browsers import RenderFailed
from sweet_rl.environments import human_design_interaction_env as design
from sweet_rl.environments import human_interaction_env as interaction
from sweet_rl.environments.human_design_interaction_env import HumanDesignInteractionEnv, encode_image
from sweet_rl.environments.human_interaction_env import HumanInteractionEnv
from sweet_rl.errors import DataError, UsageError
from sweet_rl.types import Failure
from sweet_rl.utils import webpage_utils
from sweet_rl.utils.code_utils import code_evaluate
from sweet_rl.utils.webpage_utils import extract_html_snippet, get_driver, render_full_html, replace_urls
from tests.worlds.backend_programming.test_goldens import cases
from tests.worlds.frontend_design.test_goldens import CAPTIONS

PROMPT = "{problem_description}|{hidden_information}|{dialogue_history}|{other}"


class Refused(Exception):
    def __init__(self, status_code=None):
        self.status_code = status_code


class APIConnectionError(Exception):
    """As the package openai calls it: it has no status."""


class Client:
    """An OpenAI client that says what it is told to, and keeps what it was asked."""

    def __init__(self, replies=()):
        self.calls, self._replies = [], chain(replies, repeat("nothing more"))
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, **request):
        self.calls.append(request)
        reply = next(self._replies)
        if reply == "__BAD_REQUEST__":
            raise Refused(400)
        if isinstance(reply, Exception):
            raise reply
        text = None if reply == "__NULL__" else reply
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(interaction.time, "sleep", lambda _: None)


def play(env, case):
    """Every return of a scripted dialogue, in the form of the goldens."""
    returned = []
    for number, response in enumerate(case["agent_responses"]):
        view, reward, done = env.step(response, None if response is None else f"PROMPT-{number}")
        returned.append({"observation": view, "reward": reward, "done": done})
    return returned


@pytest.mark.filterwarnings("ignore:The human was asked")
def test_every_return_and_request_is_the_published_one(shared):
    template = (shared / "goldens/sweet_rl/c_environment/simulator_prompt.txt").read_text()
    played = 0
    for case, want in cases(shared):
        if "raises" in want:
            continue
        client = Client(case["simulator_replies"])
        model = want["simulator_calls"][0]["model"] if want["simulator_calls"] else "M"
        env = HumanInteractionEnv(client, template, model, max_steps=case["max_steps"])
        assert env.reset(case["problem_description"], case["hidden_information"]) == want["reset_returns"]
        assert play(env, case) == want["returns"], case["id"]
        assert client.calls == want["simulator_calls"], case["id"]
        for name in ("dialogue_history", "answer", "steps", "done"):
            assert getattr(env, name) == want[name], (case["id"], name)
        played += 1
    assert played == 13


def test_the_state_that_programs_read():
    env = HumanInteractionEnv(Client(["r" * 500]), PROMPT, "M", env_id=3, max_steps=2)
    assert (env.answer, env.steps, env.done, env.env_id, env.max_steps) == ("No answer", 0, False, 3, 2)
    assert env.reset("Write f.", "def f(): pass") == [{"role": "user", "content": "Write f."}]
    assert env.str_dialogue_history() == "user:Write f.\n\n\n\nagent:"
    view, reward, done = env.step("Why?")
    assert (reward, done) == (0, False)
    assert len(view[-1]["content"]) == interaction.HUMAN_RESPONSE_CHARACTER_LIMIT == 400
    assert env.get_dialogue_history() == view
    assert env.step("OUTPUT: so") == (None, 0, True)
    assert (env.answer, env.done, env.steps) == (" so", True, 2)
    assert env.step(None, None) == (None, 0, True)
    assert env.steps == 3
    env.reset("Again.", "")
    assert (env.answer, env.steps, env.done, len(env.dialogue_history)) == ("No answer", 0, False, 1)


def test_the_human_is_given_the_three_texts_and_other_braces_stay():
    client = Client(["Because."])
    env = HumanInteractionEnv(client, PROMPT, "M")
    env.reset("Write {f}.", "def f(): {}")
    env.step("Why?")
    asked = client.calls[0]["messages"][1]["content"]
    assert asked == ("Write {f}.|def f(): {}|user:Write {f}.\n\n\n\nassistant:Why?\n\n\n\nagent:|{other}")


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ('{{"he knows": "{hidden_information}"}}', '{"he knows": "def f(): {}"}'),  # as str.format has it
        ('{"he knows": "{hidden_information}"}', '{"he knows": "def f(): {}"}'),
        ("{hidden_information} {", "def f(): {} {"),
        ("{0} {hidden_information}", "{0} def f(): {}"),
        ("{hidden_information.code}", "{hidden_information.code}"),
        ("no places", "no places"),
    ],
)
def test_a_prompt_is_formatted_as_published_and_odd_braces_are_no_error(template, asked):
    client = Client()
    env = HumanInteractionEnv(client, template, "M")
    env.reset("Write f.", "def f(): {}")
    env.step("Why?")
    assert client.calls[0]["messages"][1]["content"] == asked


@pytest.mark.parametrize("choices", [[], None, [SimpleNamespace(message=SimpleNamespace(content=None))]])
def test_a_reply_without_a_text_is_no_response(choices):
    def create(**request):
        return SimpleNamespace(choices=choices)

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    env = HumanInteractionEnv(client, PROMPT, "M")
    env.reset("d", "h")
    with pytest.warns(UserWarning, match="The human was asked in vain: the server's reply has no text"):
        view, _, done = env.step("Why?")
    assert (view[-1]["content"], done) == ("No response.", False)


@pytest.mark.parametrize(
    ("replies", "said", "calls"),
    [
        ([Refused(400), "late"], "No response.", 1),
        ([Refused(503), APIConnectionError(), "there"], "there", 3),
        ([Refused(429), TimeoutError(), ConnectionError(), "late"], "No response.", 3),
        (["__NULL__"], "No response.", 1),
    ],
)
@pytest.mark.filterwarnings("ignore:The human was asked")
def test_a_human_who_cannot_be_asked(replies, said, calls):
    client = Client(replies)
    env = HumanInteractionEnv(client, PROMPT, "M")
    env.reset("d", "h")
    assert env.invoke_model() == said
    assert len(client.calls) == calls


def test_a_failure_is_told_and_a_wrong_key_is_raised():
    env = HumanInteractionEnv(Client([Refused(400), Refused(401)]), PROMPT, "M")
    env.reset("d", "h")
    with pytest.warns(UserWarning, match="The human was asked 1 times in vain"):
        env.invoke_model()
    with pytest.raises(Refused):
        env.invoke_model()


class PageDriver:
    """The golden's browser behind the published function's driver."""

    def __init__(self, fails=()):
        self.fails, self.pages, self.open = fails, [], True

    def render(self, html):
        self.pages.append(html)
        if len(self.pages) in self.fails:
            raise RenderFailed(Failure("crash", "gone"))
        return b"IMG%d" % len(self.pages)

    def quit(self):
        self.open = False


@pytest.fixture
def page_env(monkeypatch, tmp_path):
    """Makes environments whose pages the golden's browser draws."""

    def make(client, prompt="Compare.", fails=(), **settings):
        monkeypatch.setattr(design, "get_driver", lambda: PageDriver(fails))
        return HumanDesignInteractionEnv(
            client, prompt, "vision-model", env_id=4, temp_path=str(tmp_path / "pictures"), **settings
        )

    return make


@pytest.mark.filterwarnings("ignore:The human was asked", "ignore:A page of environment 4")
def test_every_page_and_request_is_the_published_one(shared, page_env):
    golden = json.loads((shared / "goldens/sweet_rl/f_html/html.json").read_text())["environment"]
    for case, want in zip(golden["cases"], golden["expected"], strict=True):
        client = Client(case["simulator_replies"])
        env = page_env(
            client,
            golden["simulator_prompt"],
            case["driver_fails_on_calls"],
            max_steps=case["max_steps"],
            gpt_client=case["gpt_client"],
        )
        assert env.reset(case["problem_description"], case["ground_truth_html"]) == want["reset_returns"]
        assert play(env, case) == want["returns"], case["id"]
        asked = json.dumps(client.calls)
        for ours, theirs in CAPTIONS.items():
            asked = asked.replace(json.dumps(ours), json.dumps(theirs))
        assert json.loads(asked) == want["simulator_calls"], case["id"]
        assert env.driver.pages == want["pages_given_to_driver"], case["id"]
        answer = env.answer and re.sub(r".*/pictures/4_\d+\.png", "<TEMP>/4_<time>.png", env.answer)
        assert answer == want["answer"], case["id"]
        for name in ("dialogue_history", "steps", "done"):
            assert getattr(env, name) == want[name], (case["id"], name)
    assert len(golden["cases"]) == 9


def test_programs_may_ask_the_human_about_a_picture_of_their_own(page_env, tmp_path):
    client = Client(["Blue."])
    env = page_env(client)
    env.reset("A page.", "<html>wanted</html>")
    (tmp_path / "draft.png").write_bytes(b"PNG")
    assert env.invoke_model("Is it so?", str(tmp_path / "draft.png")) == "Blue."
    urls = [
        part["image_url"]["url"] for part in client.calls[0]["messages"][0]["content"] if "image_url" in part
    ]
    assert urls == [f"data:image;base64,{base64.b64encode(data).decode()}" for data in (b"PNG", b"IMG1")]
    assert encode_image(str(tmp_path / "draft.png"), True) == "data:image/jpeg;base64,UE5H"
    assert design.HUMAN_RESPONSE_CHARACTER_LIMIT == 1000
    env.driver.quit()


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
        (row(ADD, ground_truth=None), "line 2: field 'ground_truth' must be a string, got None"),
        (row(ADD, test_cases={"one": 3}), "line 2: field 'test_cases.one' must be a Python expression"),
    ],
)
def test_what_is_no_task_is_named(wrong, says):
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
