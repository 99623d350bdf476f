"""Trajectories to grades with a stand-in for the browser: what is shown, what goes wrong, how often is rendered."""

import asyncio

import numpy as np
import pytest

from sweet_rl.grading.pages.grader import FLOORS, PageGrader, answer_html
from sweet_rl.grading.pages.metrics import WEIGHT_FREE
from sweet_rl.records import trajectories_from_rows, trajectory_from_row
from tests.browsers.fake_renderer import FakeRenderer
from tests.grading.pages.runs import FAR, NEAR, TARGET, row


class Brightness:
    """A model whose feature is how bright a picture is; counts its batches."""

    def __init__(self):
        self.batches = []

    def prepare(self, image):
        return np.asarray(image.resize((1, 1)), np.float32).reshape(1, 3, 1, 1) / 255 + 0.01

    def embed(self, pictures):
        self.batches.append(len(pictures))
        return [picture.reshape(3) for picture in pictures]


def grade(rows, folder, renderer=None, **more):
    async def collect():
        grader = PageGrader(renderer or FakeRenderer(), folder=folder, **more)
        return [found async for found in grader.grade(trajectories_from_rows(list(enumerate(rows))))]

    found = dict(asyncio.run(collect()))
    return [found[index] for index in range(len(rows))]


def test_the_nearer_the_better_and_the_target_is_perfect(tmp_path):
    pages = [TARGET, NEAR, FAR]
    best, near, far = grade([row(f"t{i}", page, folder=tmp_path) for i, page in enumerate(pages)], tmp_path)
    assert set(best.values.values()) == {1.0}
    assert set(best.floors) == set(FLOORS)
    for name in WEIGHT_FREE:
        assert 1 > near.values[name] > far.values[name]
        assert near.floors["blank page"][name] <= far.values[name]
    assert best.failures == near.failures == far.failures == ()


def test_what_is_missing_or_broken_is_black_and_said(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    answers = [None, "No answer", "", "gone.png", "broken.png", str(tmp_path), "\0"]
    rows = [row(f"t{i}", FAR, answer=answer) for i, answer in enumerate(answers)]
    grades = grade(rows, tmp_path)
    shown = [grade.shown.value for grade in grades]
    assert shown == ["none", "none", "none", "missing", "broken", "missing", "missing"]
    assert [[failure.kind for failure in grade.failures] for grade in grades] == [
        *[[]] * 3,
        ["missing_picture"],
        ["broken_picture"],
        ["missing_picture"],
        ["missing_picture"],
    ]
    for one in grades:
        assert one.values == one.floors["black picture"]
        assert one.values["text"] == one.values["layout"] == 0


def test_absolute_answers_are_found_and_relative_ones_are_relative_to_the_file(tmp_path):
    (tmp_path / "pictures").mkdir()
    there = row("t", TARGET, folder=tmp_path / "pictures")
    there["answer"] = "pictures/t_0.png"
    absolute = there | {"answer": str(tmp_path / "pictures/t_0.png")}
    assert [grade.values["ssim"] for grade in grade([there, absolute], tmp_path)] == [1, 1]


def test_a_target_without_a_picture_is_no_number(tmp_path):
    rows = [row("a", NEAR, folder=tmp_path), row("b", NEAR, target="<html>slow</html>", folder=tmp_path)]
    good, bad = grade(rows, tmp_path, FakeRenderer(fails={"slow": "timeout"}))
    assert good.values is not None
    assert bad.values is None
    assert [failure.kind for failure in bad.failures] == ["target_timeout"]


def test_a_target_that_comes_without_bytes_is_no_number(tmp_path):
    from sweet_rl.browsers import RenderedPage

    class Empty(FakeRenderer):
        async def render(self, html):
            return RenderedPage(b"", 0, 0)

    (bad,) = grade([row("a", NEAR, folder=tmp_path)], tmp_path, Empty())
    assert (bad.values, bad.failures[0].kind) == (None, "target_broken_picture")


def test_a_picture_without_a_known_page_has_no_text_and_no_layout(tmp_path):
    silent = row("a", NEAR, folder=tmp_path)
    silent["dialogue_history"] = silent["dialogue_history"][:1]
    fails = FakeRenderer(fails={"Write": "crash"})
    no_html, crashed = grade([silent, row("b", NEAR, folder=tmp_path)], tmp_path, fails)
    assert [no_html.failures[0].kind, crashed.failures[0].kind] == ["no_html", "answer_crash"]
    for one in (no_html, crashed):
        assert one.values["text"] == one.values["layout"] == 0
        assert one.values["ssim"] > 0.3


def test_repeats_share_their_target(tmp_path):
    rows = [row("t", page, sample=i, folder=tmp_path) for i, page in enumerate([NEAR, FAR, NEAR, FAR])]
    renderer = FakeRenderer()
    grade(rows, tmp_path, renderer)
    assert renderer.pages.count(TARGET) == 1


def test_the_page_of_a_picture_is_the_draft_that_the_row_names(tmp_path):
    history = [{"role": "user", "content": "x"}]
    for page in (TARGET, NEAR, "<html>cannot be drawn</html>"):
        history += [{"role": "assistant", "content": page}, {"role": "user", "content": "go on"}]
    base = {"task": {"problem_description": "x", "ground_truth": "y"}, "dialogue_history": history}
    drafts = [
        {"turn": 0, "image": "0.png"},
        {"turn": 1, "image": "1.png"},
        {"turn": 2, "image": None, "failure": "render_timeout"},
    ]

    def page(**more):
        return answer_html(trajectory_from_row(base | more))

    assert page(answer="1.png", drafts=drafts) == NEAR
    assert page(answer="0.png", drafts=drafts) == TARGET
    assert page(answer="0.png") == "<html>cannot be drawn</html>"  # the last page, where the row does not say
    assert page(answer="0.png", drafts="?") == "<html>cannot be drawn</html>"
    assert (
        page(answer="0.png", drafts=[{"turn": 99, "image": "0.png"}, None]) == "<html>cannot be drawn</html>"
    )


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_model_adds_clip_whatever_the_batch(tmp_path, batch_size):
    targets = [TARGET, FAR, "<html>slow</html>"]
    rows = [
        row(f"t{i}", page, target=targets[i], sample=j, folder=tmp_path)
        for i in range(3)
        for j, page in enumerate([TARGET, NEAR])
    ]
    model = Brightness()
    renderer = FakeRenderer(fails={"slow": "timeout"})
    grades = grade(rows, tmp_path, renderer, embedder=model, batch_size=batch_size)
    assert grades[0].values["clip"] == 1
    assert 0.5 < grades[1].values["clip"] < 1
    assert grades[4].values is grades[5].values is None
    black = np.full(3, 0.01) / np.linalg.norm(np.full(3, 0.01))
    for one in grades[:4]:
        assert list(one.values) == ["clip", *WEIGHT_FREE]
        assert one.floors["black picture"]["clip"] > 0.5
        assert set(one.floors["blank page"]) == {"clip", *WEIGHT_FREE}
    assert black.sum() == pytest.approx(3**0.5)
    assert sum(model.batches) >= 8


def test_a_missing_browser_ends_the_run(tmp_path):
    from sweet_rl.errors import UsageError

    renderer = FakeRenderer(raises={"Shop": UsageError("no browser")})
    with pytest.raises(UsageError, match="no browser"):
        grade([row(f"t{i}", FAR, folder=tmp_path) for i in range(30)], tmp_path, renderer)


def test_who_stops_listening_leaves_nothing_running(tmp_path):
    rows = [row(f"t{i}", FAR, target=f"<html>{i}</html>", folder=tmp_path) for i in range(30)]

    async def look_at_the_first():
        renderer = FakeRenderer(delay_s=0.001)
        grades = PageGrader(renderer, folder=tmp_path, at_once=2).grade(
            trajectories_from_rows(list(enumerate(rows)))
        )
        await anext(grades)
        await grades.aclose()
        rendered = len(renderer.pages)
        await asyncio.sleep(0.05)
        assert len(renderer.pages) == rendered < 60
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(look_at_the_first())
