"""Trajectories to grades with a stand-in for the browser; what is not computed twice; the embedding of pictures."""

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
from sweet_rl.grading.pages.embedding import ClipEmbedder, cosine, squares
from sweet_rl.grading.pages.grader import FLOORS, PageGrader, answer_html
from sweet_rl.grading.pages.metrics import WEIGHT_FREE, look
from sweet_rl.records import trajectories_from_rows, trajectory_from_row
from sweet_rl.worlds import load_tasks
from tests.browsers.fake_renderer import FakeRenderer
from tests.conftest import ROOT
from tests.grading.pages.pages_by_hand import DARK, GREEN, SHOP, draw, moved
from tests.grading.pages.runs import FAR, NEAR, TARGET, row
from tests.grading.pages.tiny_clip import save_tiny_clip


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
    grades = grade([row(f"t{i}", FAR, answer=answer) for i, answer in enumerate(answers)], tmp_path)
    shown = [one.shown.value for one in grades]
    assert shown == ["none", "none", "none", "missing", "broken", "missing", "missing"]
    kinds = [[failure.kind for failure in one.failures] for one in grades]
    assert kinds == [[] if one == "none" else [f"{one}_picture"] for one in shown]
    for one in grades:
        assert one.values == one.floors["black picture"]
        assert one.values["text"] == one.values["layout"] == 0


def test_absolute_answers_are_found_and_relative_ones_are_relative_to_the_file(tmp_path):
    (tmp_path / "pictures").mkdir()
    there = row("t", TARGET, folder=tmp_path / "pictures") | {"answer": "pictures/t_0.png"}
    absolute = there | {"answer": str(tmp_path / "pictures/t_0.png")}
    assert [grade.values["ssim"] for grade in grade([there, absolute], tmp_path)] == [1, 1]


class Empty(FakeRenderer):
    async def render(self, html):
        return RenderedPage(b"", 0, 0)


def test_a_target_without_a_picture_is_no_number(tmp_path):
    rows = [row("a", NEAR, folder=tmp_path), row("b", NEAR, target="<html>slow</html>", folder=tmp_path)]
    good, bad = grade(rows, tmp_path, FakeRenderer(fails={"slow": "timeout"}))
    empty, _ = grade(rows, tmp_path, Empty())
    assert good.values is not None
    for one, kind in ((bad, "target_timeout"), (empty, "target_broken_picture")):
        assert (one.values, [failure.kind for failure in one.failures]) == (None, [kind])


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
    last, history = "<html>cannot be drawn</html>", [{"role": "user", "content": "x"}]
    for page in (TARGET, NEAR, last):
        history += [{"role": "assistant", "content": page}, {"role": "user", "content": "go on"}]
    base = {"task": {"problem_description": "x", "ground_truth": "y"}, "dialogue_history": history}
    drafts = [{"turn": turn, "image": image} for turn, image in enumerate(["0.png", "1.png", None])]
    for answer, more, page in (
        ("1.png", {"drafts": drafts}, NEAR),
        ("0.png", {"drafts": drafts}, TARGET),
        ("0.png", {}, last),  # where the row does not say
        ("0.png", {"drafts": "?"}, last),
        ("0.png", {"drafts": [{"turn": 99, "image": "0.png"}, None]}, last),
    ):
        assert answer_html(trajectory_from_row(base | {"answer": answer} | more)) == page


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_model_adds_clip_whatever_the_batch(tmp_path, batch_size):
    targets, pages = [TARGET, FAR, "<html>slow</html>"], [TARGET, NEAR]
    rows = [
        row(f"t{i}", page, target=target, sample=j, folder=tmp_path)
        for i, target in enumerate(targets)
        for j, page in enumerate(pages)
    ]
    model, renderer = Brightness(), FakeRenderer(fails={"slow": "timeout"})
    grades = grade(rows, tmp_path, renderer, embedder=model, batch_size=batch_size)
    assert grades[0].values["clip"] == 1
    assert 0.5 < grades[1].values["clip"] < 1
    assert grades[4].values is grades[5].values is None
    for one in grades[:4]:
        assert list(one.values) == ["clip", *WEIGHT_FREE]
        assert one.floors["black picture"]["clip"] > 0.5
        assert set(one.floors["blank page"]) == {"clip", *WEIGHT_FREE}
    assert sum(model.batches) >= 8


def test_a_missing_browser_ends_the_run(tmp_path):
    renderer = FakeRenderer(raises={"Shop": UsageError("no browser")})
    with pytest.raises(UsageError, match="no browser"):
        grade([row(f"t{i}", FAR, folder=tmp_path) for i in range(30)], tmp_path, renderer)


def test_who_stops_listening_leaves_nothing_running(tmp_path):
    rows = [row(f"t{i}", FAR, target=f"<html>{i}</html>", folder=tmp_path) for i in range(30)]

    async def look_at_the_first():
        renderer = FakeRenderer(delay_s=0.001)
        grader = PageGrader(renderer, folder=tmp_path, at_once=2)
        grades = grader.grade(trajectories_from_rows(list(enumerate(rows))))
        await anext(grades)
        await grades.aclose()
        rendered = len(renderer.pages)
        await asyncio.sleep(0.05)
        assert len(renderer.pages) == rendered < 60
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(look_at_the_first())


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


def graded(pairs, pages, folder):
    """The grades of (answer, target) by name, each answer's picture a file."""
    rows = []
    for number, (answer, target) in enumerate(pairs):
        (folder / f"{number}.png").write_bytes(pages[answer].image)
        task = {"task_id": str(number), "problem_description": "A page.", "ground_truth": f"<html>[{target}]"}
        said = {"role": "assistant", "content": f"<html>[{answer}]</html>"}
        rows.append({"task": task, "dialogue_history": [said], "answer": f"{number}.png"})

    return grade(rows, folder, Album(pages), cache=folder / "cache")


def all_agree(pairs, pages, folder, plain_grades):
    found = graded(pairs, pages, folder)
    assert graded(pairs, pages, folder) == found  # read again
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
    tasks = load_tasks(str(shared / "data/colbench/frontend_tasks_500.jsonl"), num_tasks=6)

    async def render():
        async with open_renderer(RenderSettings()) as renderer:
            return await asyncio.gather(*(renderer.render(task.ground_truth) for task in tasks))

    pages = dict(zip(map(str, range(6)), asyncio.run(render()), strict=True))
    pairs = [(str(number), str((number + 1) % 6)) for number in range(6)]
    all_agree(pairs, pages, tmp_path, plain_grades)


def test_a_scaled_picture_is_kept_and_made_anew_where_its_file_is_damaged(tmp_path, monkeypatch):
    data, cache = pages_by_hand()["shop"].image, tmp_path / "cache"
    wanted = look(data)
    assert list(tmp_path.rglob("*")) == []
    assert np.array_equal(look(data, cache), wanted)
    (file,) = cache.rglob("*.zz")
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damage in (b"", whole[:-1], bytes(flipped), b"nothing"):
        file.write_bytes(damage)
        assert np.array_equal(look(data, cache), wanted)
        assert file.read_bytes() == whole
    monkeypatch.setattr(metrics, "decode", None)
    assert np.array_equal(look(data, cache), wanted)


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request, tmp_path_factory):
    return str(save_tiny_clip(tmp_path_factory.mktemp(request.param), request.param))


def embed(embedder, *images):
    return embedder.embed([embedder.prepare(image) for image in images])


def test_features_are_those_of_the_models_own_preprocessing_whatever_the_batch(folder):
    """What the model's own processor and model give, one picture at a time."""
    import torch
    from transformers import AutoImageProcessor, AutoModel

    images = [draw(SHOP), draw(moved(SHOP, 60), height=1500), draw(SHOP[:3], width=400), draw(SHOP)]
    vectors = embed(ClipEmbedder(folder, device="cpu", batch_size=2), *images)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = AutoModel.from_pretrained(folder)
    with torch.inference_mode():
        for image, vector in zip(images, vectors, strict=True):
            features = model.get_image_features(**processor(images=image, return_tensors="pt")).pooler_output
            np.testing.assert_allclose(vector, features[0].numpy(), rtol=1e-4, atol=1e-5)
    assert not np.allclose(vectors[0], vectors[1])
    first, _, other, again = embed(ClipEmbedder(folder, device="cpu"), *images)
    assert cosine(first, again) == 1
    assert 0 <= cosine(first, other) < 1


def test_center_sees_the_middle_of_a_long_page_and_tile_the_mean_of_its_squares(tmp_path):
    folder = str(save_tiny_clip(tmp_path, "clip"))
    center, tile = ClipEmbedder(folder, device="cpu"), ClipEmbedder(folder, device="cpu", long_page="tile")
    long, square = draw(SHOP, width=400, height=2000), draw(SHOP, width=300, height=300)
    end_changed = long.copy()
    end_changed.paste("red", (0, 1800, 400, 2000))
    assert cosine(*embed(center, long, end_changed)) == 1
    assert cosine(*embed(tile, long, end_changed)) < 1 - 1e-4
    np.testing.assert_array_equal(*[embed(way, square)[0] for way in (center, tile)])
    page = draw(SHOP, width=400, height=1000)
    parts = embed(center, *[page.crop((0, top, 400, top + 400)) for top in (0, 400, 600)])
    expected = np.mean([part / np.linalg.norm(part) for part in parts], axis=0)
    np.testing.assert_allclose(embed(tile, page)[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "starts"),
    [((10, 10), [0]), ((10, 25), [0, 10, 15]), ((25, 10), [0, 10, 15]), ((10, 20), [0, 10])],
)
def test_squares(size, starts):
    image = Image.fromarray(np.indices((size[1], size[0])).max(axis=0).astype(np.uint8))
    tiles = squares(image)
    assert [tile.size for tile in tiles] == [(10, 10)] * len(starts)
    assert [tile.getpixel((0, 0)) for tile in tiles] == starts
    assert len(squares(Image.new("RGB", (10, 5000)))) == 16


def test_cosine_by_hand():
    for one, other, expected in (((3, 0), (0.6, 0.8), 0.6), ((2, 1), (4, 2), 1), ((0, 0), (1, 0), 0)):
        assert cosine(np.array(one, np.float32), np.array(other, np.float32)) == pytest.approx(expected)
    assert cosine(np.array((1, 0), np.float32), np.array((-1, 0.001), np.float32)) == 0


def test_what_is_no_clip_model_is_said(tmp_path):
    from tests.tiny_models import save_tiny_llama

    with pytest.raises(UsageError, match="no such folder"):
        ClipEmbedder(str(tmp_path / "nowhere"), device="cpu")
    with pytest.raises(UsageError, match="CLIP"):
        ClipEmbedder(str(save_tiny_llama(tmp_path / "llama")), device="cpu")
