"""What is shared, kept and left out changes no grade: against the plain arithmetic of the benchmark."""

import asyncio
import io
import sys

import numpy as np
import pytest
from PIL import Image

from sweet_rl.browsers import Box, RenderedPage, RenderSettings, open_renderer
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.errors import UsageError
from sweet_rl.grading.pages import metrics
from sweet_rl.grading.pages.grader import FLOORS, PageGrader
from sweet_rl.grading.pages.metrics import BrokenPicture, Looks, decode, pixels_of, scale
from sweet_rl.records import trajectories_from_rows
from sweet_rl.worlds import load_tasks
from tests.conftest import ROOT
from tests.grading.pages.pages_by_hand import DARK, GREEN, SHOP, draw, moved


@pytest.fixture
def plain_grades(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from _plain_pages import plain_grades

    return plain_grades


class Album:
    """Renders what was put into it."""

    def __init__(self, pages):
        self.pages = pages

    async def render(self, html):
        return next(page for name, page in self.pages.items() if f"[{name}]" in html)


def in_png(image, boxes=()):
    out = io.BytesIO()
    image.save(out, "PNG")
    return RenderedPage(out.getvalue(), *image.size, tuple(boxes))


def noise(height):
    pixels = np.random.default_rng(height).integers(0, 256, (height, 400, 3), np.uint8)
    return in_png(Image.fromarray(pixels), [Box("p", 0, 0, 400, height, "noise")])


def pages_by_hand():
    """Low and high, dark and white, plain and busy, and what is nearly even."""
    nearly = Image.new("RGB", (1366, 768), (200, 200, 200))
    nearly.paste((201, 200, 200), (300, 300, 700, 500))
    return {
        "shop": in_png(draw(SHOP), SHOP),
        "moved": in_png(draw(moved(SHOP, 12, 40), height=1401), moved(SHOP, 12, 40)),
        "dark": in_png(draw(SHOP, paper=DARK, height=640), SHOP),
        "green": in_png(Image.new("RGB", (1366, 768), GREEN)),
        "white": in_png(Image.new("RGB", (1366, 2000), "white")),
        "black": in_png(Image.new("RGB", (1366, 1371), "black")),
        "nearly even": in_png(nearly),
        "thin": in_png(Image.new("RGB", (1366, 3), "red")),
        "high": in_png(draw(SHOP, width=300, height=4000), SHOP),
        "noise": noise(333),
        "more noise": noise(90),
    }


def graded(pairs, pages, folder, looks):
    """The grades of (answer, target) by name, each answer's picture a file."""
    rows = []
    for number, (answer, target) in enumerate(pairs):
        (folder / f"{number}.png").write_bytes(pages[answer].image)
        task = {"task_id": str(number), "problem_description": "A page.", "ground_truth": f"<html>[{target}]"}
        said = {"role": "assistant", "content": f"<html>[{answer}]</html>"}
        rows.append({"task": task, "dialogue_history": [said], "answer": f"{number}.png"})

    async def grade():
        grader = PageGrader(Album(pages), folder=folder, looks=looks)
        return [found async for found in grader.grade(trajectories_from_rows(list(enumerate(rows))))]

    return dict(asyncio.run(grade()))


def all_agree(pairs, pages, folder, plain_grades):
    found = graded(pairs, pages, folder, Looks(folder / "cache"))
    assert graded(pairs, pages, folder, Looks(folder / "cache")) == found  # read again
    for number, (answer, target) in enumerate(pairs):
        wanted = plain_grades(pages[answer].image, pages[answer], pages[target])
        grades = {"answer": found[number].values, **found[number].floors}
        assert set(grades) == {"answer", *FLOORS} == set(wanted)
        for name, values in grades.items():
            assert dict(values) == pytest.approx(wanted[name], abs=1e-6), (answer, target, name)


def test_grades_and_floors_are_those_of_the_plain_arithmetic(tmp_path, plain_grades):
    pages = pages_by_hand()
    pairs = [(answer, target) for target in pages for answer in ("shop", "nearly even", target)]
    all_agree(pairs, pages, tmp_path, plain_grades)


def test_grades_of_real_pages_are_those_of_the_plain_arithmetic(tmp_path, plain_grades, shared):
    try:
        Chromium.find()
    except UsageError as error:
        pytest.skip(str(error))
    texts = [
        task.ground_truth
        for task in load_tasks(str(shared / "data/colbench/frontend_tasks_500.jsonl"), num_tasks=12)
    ]

    async def render():
        async with open_renderer(RenderSettings()) as renderer:
            return await asyncio.gather(*map(renderer.render, texts))

    pages = dict(zip(map(str, range(12)), asyncio.run(render()), strict=True))
    pairs = [(str(number), str((number + 1) % 12)) for number in range(12)]
    all_agree(pairs, pages, tmp_path, plain_grades)


def test_a_picture_that_was_looked_at_is_not_decoded_again(tmp_path, monkeypatch):
    page = pages_by_hand()["shop"]
    first = Looks(tmp_path).of(page.image)
    assert np.array_equal(first, pixels_of(scale(decode(page.image))))
    monkeypatch.setattr(metrics, "decode", None)
    assert np.array_equal(Looks(tmp_path).of(page.image), first)


def test_a_look_that_is_damaged_is_made_anew(tmp_path):
    page = pages_by_hand()["shop"]
    looks = Looks(tmp_path)
    wanted = looks.of(page.image)
    (file,) = tmp_path.rglob("*.zz")
    whole = file.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damage in (b"", whole[:-1], whole[:middle], flipped, b"nothing"):
        file.write_bytes(damage)
        assert np.array_equal(looks.of(page.image), wanted)
        assert file.read_bytes() == whole


def test_what_is_no_picture_has_no_look_and_nothing_is_kept_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokenPicture):
        Looks(tmp_path / "cache").of(b"no picture")
    Looks().of(pages_by_hand()["thin"].image)
    assert list(tmp_path.rglob("*")) == []
