"""Web pages from Python, with a real browser: played, graded as the commands grade, looked at; and graders by name."""

import asyncio
import os
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.types import Score

TASK = {
    "problem_description": "Write f.",
    "ground_truth": "def f(x):\n    return x + 1\n",
    "test_cases": {"a": "f(1)"},
}
DRAWN = {"viewport": "320x240", "page_timeout_s": 100, "browsers": 1, "render_cache": "none"}


@pytest.fixture(scope="module")
def chrome():
    try:
        Chromium.find()
    except UsageError as error:
        if os.environ.get("SWEET_RL_REQUIRE_BROWSER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.mark.browser
@pytest.mark.timeout(400)
def test_pages_are_played_graded_and_looked_at(chrome, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"max_turns": 2, **DRAWN}
    best = sweet_rl.play("frontend_design", agent="target", options=options)
    assert Path(best.answer).is_absolute()
    assert best.extra["target_image"].endswith("_target.png")
    floor = sweet_rl.play("html", agent="blank", options=options)
    graded = sweet_rl.grade([best, floor], rendering=DRAWN)
    assert graded[0].reward == 1.0 > graded[1].reward
    assert graded[0].extra["graded_with"]["viewport"] == "320x240"
    page = sweet_rl.view(graded).path.read_text()
    assert page.count("iVBORw0KGgo") >= 2
    assert '"kind":"design"' in page.replace(" ", "")

    task = best.task
    texts = [f"```html\n{task.ground_truth}\n```", "<html><body>Nothing</body></html>", "no page at all"]
    scores = sweet_rl.grade(texts, task, rendering=DRAWN, metric="ssim")
    assert scores[0].value == 1.0 > max(scores[1].value, scores[2].value) >= 0
    assert scores[0].details["grades"]["combined"] == 1.0
    assert scores[0].details["picture"] == "picture"
    assert scores[2].details["picture"] == "none"


@pytest.mark.browser
@pytest.mark.timeout(400)
def test_a_file_of_pages_is_that_of_the_commands(chrome, tmp_path, monkeypatch):
    out = tmp_path / "runs" / "pages.jsonl"
    options = {"max_turns": 2, **DRAWN}
    episodes = sweet_rl.simulate("html", agent="improver", options=options, num_tasks=1, output_path=out)
    assert not Path(episodes[0].answer).is_absolute()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name the folder of the episodes' file"):
        sweet_rl.grade(load_trajectories(out))
    (ours,) = sweet_rl.grade(load_trajectories(out), folder=out.parent, rendering=DRAWN)
    evaluate_html(str(out), quiet=True, **DRAWN)
    ((_, row),) = read_rows(out)
    assert (ours.reward, dict(ours.extra["grades"])) == (row["reward"], row["grades"])


class Length:
    """The shorter, the better."""

    def grade(self, trajectories):
        for one in trajectories:
            yield Score(1 / len(one.answer), note="by its length")


def test_a_grader_by_name_or_as_an_object():
    named = sweet_rl.grade(["ab", "abcd"], TASK, grader=f"{__name__}:Length")
    assert [one.value for one in named] == [0.5, 0.25]
    assert sweet_rl.grade("ab", TASK, grader=Length()).value == 0.5
    assert asyncio.run(sweet_rl.agrade("ab", TASK, grader=Length())).value == 0.5


def test_a_grader_grades_any_world_and_keeps_the_reward_before():
    (episode,) = sweet_rl.simulate("lantern", agent="walkthrough", num_tasks=1)
    before = episode.reward
    (graded,) = sweet_rl.grade([episode], grader="tests.interface.test_web_pages:Turns")
    assert graded.reward == graded.extra["grades"]["tests.interface.test_web_pages:Turns"] == 0.5
    assert before is None or graded.extra["grades"]["as played"] == before


class Turns:
    """Half of everything."""

    def grade(self, trajectories):
        return (Score(0.5) for _ in trajectories)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"metric": "ssim"}, "metric belongs to grading by pages, and this is by tests"),
        (
            {"grader": Turns(), "workers": 2},
            "workers belongs to grading by hidden tests, and this is by grader",
        ),
        ({"grader": "nobody"}, "no grader 'nobody'"),
        ({"workers": 0}, "must be positive"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(settings, says):
    with pytest.raises(UsageError, match=says):
        sweet_rl.grade("def f(x): return x + 1", TASK, **settings)


PAGE = {"problem_description": "A page.", "ground_truth": "<html><body>Hi</body></html>", "test_cases": {}}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"metric": "beauty"}, "no metric of pages 'beauty'"),
        ({"rendering": {"viewpoint": "1x1"}}, "no setting of rendering 'viewpoint'.*viewport"),
        ({"workers": 2}, "workers belongs to grading by hidden tests, and this is by pages"),
    ],
)
def test_settings_of_pages_are_checked_before_a_browser_starts(settings, says):
    with pytest.raises(UsageError, match=says):
        sweet_rl.grade("<html></html>", PAGE, **settings)
