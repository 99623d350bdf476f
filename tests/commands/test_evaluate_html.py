"""Pages are graded by their pictures; pairs of them show the hidden page."""

import asyncio
import io
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from sweet_rl.commands.evaluate_html import PageGradingFlags, evaluate_html, run
from sweet_rl.commands.generate_random_pairs_from_ranks import picture_pairs
from sweet_rl.errors import DataError, UsageError
from sweet_rl.grading.pages.metrics import WEIGHT_FREE
from sweet_rl.preferences.pairs import PREFIX
from sweet_rl.training.data import read_pairs
from sweet_rl.training.settings import DataSettings
from tests.browsers.fake_renderer import FakeRenderer
from tests.grading.pages.runs import FAR, NEAR, TARGET, read, row, write

WAY = {"browser": "chromium", "network": "none", "allow_scripts": False, "viewport": "1366x768"}
CLIP = {"clip_model": "m", "long_page": "center"}


def evaluate(path, renderer=None, embedder=None, **more):
    model = CLIP if embedder else {}
    flags = {"metric": "combined", "margin": 0.1} | model | more
    job = PageGradingFlags(saved_path=str(path), quiet=True, **flags)
    asyncio.run(run(job, renderer or FakeRenderer(), embedder))


class GoldenModel:
    """The embeddings that the golden's rewards were computed from: pictures are told apart by their pixels."""

    def __init__(self, cosines, blank):
        self.cosines, self.blank = cosines, blank

    def prepare(self, image):
        if image.size == (3, 3):
            c = self.cosines[image.getpixel((0, 0))[0]]
            vector = [2 * c, 2 * np.sqrt(1 - c * c)]
        elif image.size == (224, 224):
            vector = [self.blank, np.sqrt(1 - self.blank**2)]
        else:
            vector = [3, 0]
        return np.array(vector, np.float32).reshape(1, 2, 1, 1)

    def embed(self, pictures):
        return [picture.reshape(2) for picture in pictures]


def png(value):
    out = io.BytesIO()
    Image.new("RGB", (3, 3), (value, 1, 1)).save(out, "PNG")
    return out.getvalue()


def test_the_golden_rewards_pairs_and_both_files(shared, tmp_path, capsys):
    golden = shared / "goldens/sweet_rl/g_html_eval"
    expected = json.loads((golden / "expected.json").read_text())
    cosines = expected["cosine_given_per_task_and_repeat"]
    rows = []
    for index, original in enumerate(expected["rows"]):
        changed = dict(original)
        if original["answer"] and original["answer"].startswith("<image>"):
            changed["answer"] = f"{index}.png"
            (tmp_path / changed["answer"]).write_bytes(png(index))
        rows.append(changed)
    path = write(tmp_path / "k3.jsonl", rows)
    model = GoldenModel({j * 4 + i: cosines[i][j] for i in range(4) for j in range(3)}, 0.1)
    plain, critic = tmp_path / "plain.jsonl", tmp_path / "critic.jsonl"
    files = {"preference_path": str(plain), "ground_truth_preference_path": str(critic)}
    evaluate(path, embedder=model, k=3, metric="clip", **files)
    assert [row["reward"] for row in read(path)] == expected["expected_reward_row_order"]
    assert plain.read_text() == (golden / "expected_preferences.jsonl").read_text()
    assert critic.read_text() == (golden / "expected_ground_truth_preferences.jsonl").read_text()
    report = json.loads((tmp_path / "k3.report.json").read_text())
    assert report["rewards"]["mean"]["mean"] == pytest.approx(expected["summary"]["mean_similarity"])
    assert report["rewards"]["best_of_k"]["mean"] == pytest.approx(expected["summary"]["best_of_k_mean"])
    assert report["rewards"]["floors"]["black picture"] == pytest.approx(0.1)
    out = capsys.readouterr().out
    told = f"{expected['summary']['pair_count']} pairs are in {plain}"
    for words in ("57.2", "70.3", told, "1  pictures that are missing at the path in the row"):
        assert words in out


@pytest.fixture
def three(tmp_path):
    """One task: the target itself, something near, and nothing at all; another one that cannot be rendered."""
    pages = ({"folder": tmp_path}, {"folder": tmp_path, "sample": 1}, {"sample": 2, "answer": None})
    rows = []
    for page, told in zip((TARGET, NEAR, None), pages, strict=True):
        unpaintable = {"folder": tmp_path, "sample": told.get("sample", 0), "target": "<html>slow</html>"}
        rows += [row("a", page, **told), row("b", FAR, **unpaintable)]
    return write(tmp_path / "three.jsonl", rows)


def slow():
    return FakeRenderer(fails={"slow": "timeout"})


def test_rows_keep_their_fields_and_get_grades_floors_and_how(three, capsys):
    before = read(three)
    evaluate(three, slow(), k=3)
    best, excluded, near, _, nothing, _ = after = read(three)
    for old, new in zip(before, after, strict=True):
        assert old.items() <= new.items()
    assert best["reward"] == 1
    assert best["grades"] == dict.fromkeys(WEIGHT_FREE, 1.0)
    assert WAY.items() <= best["graded_with"].items()
    assert best["graded_with"]["grader"] == "pages"
    mean = sum(near["grades"][name] for name in ("ssim", "colour", "text", "layout")) / 4
    assert near["reward"] == near["grades"]["combined"] == pytest.approx(mean)
    assert nothing["grades"] == nothing["floors"]["black picture"]
    assert nothing["grading_details"] == {"picture": "none"}
    assert excluded["reward"] is None
    assert excluded["grades"] == {}
    assert excluded["grading_details"]["failures"][0]["kind"] == "target_timeout"
    out = capsys.readouterr().out
    told = ("3  rows without a reward: their target gives no picture", "1  dialogues without a picture")
    for words in (*told, "best of 3", "blank page"):
        assert words in out


def test_targets_that_cannot_be_drawn_are_named(three, tmp_path, capsys):
    evaluate(three, slow())
    assert "b: its target gives no picture (target timeout: " in capsys.readouterr().out
    report = json.loads(three.with_suffix(".report.json").read_text())
    assert list(report["not_gradable"]) == ["b"]
    bad = write(tmp_path / "bad.jsonl", read(three)[1::2][:1])
    with pytest.raises(UsageError, match=r"None of the tasks of .*bad.jsonl' can be graded:\n *b: its"):
        evaluate(bad, slow())


def test_pairs_by_margin_in_published_form(three, tmp_path):
    plain, critic = tmp_path / "pairs.jsonl", tmp_path / "critic.jsonl"
    evaluate(three, slow(), k=3, preference_path=str(plain), ground_truth_preference_path=str(critic))
    best, _, near, _, nothing, _ = read(three)
    assert best["reward"] - near["reward"] > 0.1 < near["reward"] - nothing["reward"]
    sides = [(pair["chosen"]["input"], pair["rejected"]["input"]) for pair in read(plain)]
    assert sides == [("IN a 0|", "IN a 1|"), ("IN a 0|", "IN a 2|"), ("IN a 1|", "IN a 2|")]
    told = read(critic)[0]["chosen"]
    assert told["input"] == f"In light that the final answer is: {TARGET}.IN a 0|"
    assert told["output"] == best["dialogue_history"][-1]["output"]
    evaluate(three, slow(), k=3, margin=0.99, preference_path=str(plain))
    assert len(read(plain)) <= 1


def test_what_is_scored_is_skipped_and_regrade_does_it_again(three, tmp_path):
    evaluate(three, slow(), k=3)
    text = three.read_text()
    renderer = slow()
    evaluate(three, renderer, k=3)
    assert set(renderer.pages) == {"<html>slow</html>"}  # only what failed is tried again
    assert three.read_text() == text
    (tmp_path / "a_1.png").write_bytes((tmp_path / "a_0.png").read_bytes())
    evaluate(three, slow(), k=3)
    assert three.read_text() == text
    evaluate(three, slow(), k=3, regrade=True)
    assert read(three)[2]["grades"]["ssim"] == 1


def test_another_metric_needs_no_rendering_and_another_way_does(three):
    evaluate(three, slow(), k=3)
    renderer = slow()
    evaluate(three, renderer, k=3, metric="text")
    assert set(renderer.pages) == {"<html>slow</html>"}
    near = read(three)[2]
    assert near["reward"] == near["grades"]["text"] != near["grades"]["combined"]
    renderer = slow()
    evaluate(three, renderer, k=3, viewport="800x600", metric="auto")
    assert TARGET in renderer.pages
    assert read(three)[0]["graded_with"]["viewport"] == "800x600"


def test_a_grade_by_a_model_that_is_not_there_yet_is_added(three):
    evaluate(three, slow(), k=3)
    model = GoldenModel({}, 0.25)
    evaluate(three, slow(), model, k=3, metric="clip")
    rows = read(three)
    assert rows[4]["reward"] == pytest.approx(0.25)
    assert (WAY | CLIP).items() <= rows[4]["graded_with"].items()
    evaluate(three, FakeRenderer(raises={"Shop": AssertionError("nothing is to be rendered")}), k=3)
    assert read(three)[0]["reward"] == 1


def test_published_rows_with_a_reward_are_left_alone_and_counted(tmp_path, capsys):
    rows = [row("a", NEAR, folder=tmp_path, reward=0.7), row("b", NEAR, folder=tmp_path)]
    path = write(tmp_path / "f.jsonl", rows)
    evaluate(path)
    given, graded = read(path)
    assert given["reward"] == 0.7
    assert "grades" not in given
    assert 0 < graded["reward"] < 1
    assert "1  rows with a stored reward of unknown grading" in capsys.readouterr().out
    evaluate(path, regrade=True)
    assert read(path)[0]["reward"] == read(path)[1]["reward"]


def test_a_kill_in_the_middle_keeps_what_is_saved(tmp_path, monkeypatch):
    """The 7th page ends the run; what was graded until then is in the file and is not graded again."""
    monkeypatch.setattr(PageGradingFlags, "at_once", 1)
    monkeypatch.setattr("sweet_rl.commands.evaluate._SAVE_AFTER_S", 0.0)
    monkeypatch.setattr("sweet_rl.commands.evaluate._SAVING_SHARE", 1e9)
    rows = [row(f"t{i}", NEAR, target=f"<html>{i}<p>page</p></html>", folder=tmp_path) for i in range(10)]
    path = write(tmp_path / "f.jsonl", rows)
    dies = FakeRenderer(raises={"<html>7": MemoryError("killed")})
    with pytest.raises(MemoryError):
        evaluate(path, dies)
    done = [index for index, one in enumerate(read(path)) if "grades" in one]
    assert done == list(range(7))
    renderer = FakeRenderer()
    evaluate(path, renderer)
    again = [page for page in renderer.pages if "page</p>" in page]
    assert again == [rows[i]["task"]["ground_truth"] for i in (7, 8, 9)]
    assert all(one["reward"] is not None for one in read(path))


def test_dialogues_that_cannot_stand_in_a_pair_are_counted(tmp_path, capsys):
    rows = [row("a", TARGET, folder=tmp_path), row("a", NEAR, sample=1, folder=tmp_path)]
    rows[1]["dialogue_history"].append({"role": "user", "content": "more"})
    path = write(tmp_path / "f.jsonl", rows)
    evaluate(path, k=2, preference_path=str(tmp_path / "p.jsonl"))
    assert read(tmp_path / "p.jsonl") == []
    assert "1 dialogues that do not end with an agent turn" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"metric": "clip"}, "--clip_model"),
        ({"margin": 0.0}, "--margin"),
        ({"viewport": "wide"}, "--viewport"),
    ],
)
def test_wrong_flags_are_said_before_anything_starts(tmp_path, flags, message):
    with pytest.raises(UsageError, match=message):
        evaluate_html(str(tmp_path / "none.jsonl"), **flags)


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_whole_stage_in_a_real_browser(tmp_path, capsys):
    """The target's own picture is perfect, a page like it is less, a blank page is nothing."""
    if shutil.which("chromium") is None:
        if os.environ.get("SWEET_RL_REQUIRE_BROWSER"):
            pytest.fail("SWEET_RL_REQUIRE_BROWSER is set, but there is no chromium on the PATH")
        pytest.skip("no chromium on the PATH")
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags

    target = "<html><body style='margin:0'><h1 style='background:#14b8a6'>Shop</h1><p>Fresh bread</p></body></html>"
    pages = [target, target.replace("Fresh bread", "Old cars"), "<html><body></body></html>"]

    drawing = {"render_cache": "none", "browsers": 1, "page_timeout_s": 90}

    async def pictures():
        async with open_renderer(RenderFlags(**drawing).rendering()) as renderer:
            return [(await renderer.render(page)).image for page in pages]

    rows = []
    for index, (page, picture) in enumerate(zip(pages, asyncio.run(pictures()), strict=True)):
        (tmp_path / f"{index}.png").write_bytes(picture)
        rows.append(row("a", page, target=target, sample=index, answer=f"{index}.png"))
    path = write(tmp_path / "run.jsonl", rows)
    evaluate_html(str(path), k=3, quiet=True, **drawing)
    best, near, nothing = read(path)
    assert best["grades"] == dict.fromkeys(WEIGHT_FREE, 1.0)
    assert all(1 >= near["grades"][name] > 0 for name in WEIGHT_FREE)
    assert near["grades"]["text"] < 0.7 < near["grades"]["colour"]
    assert set(nothing["grades"].values()) == {0}
    assert nothing["grades"] == nothing["floors"]["blank page"]
    assert best["graded_with"]["viewport"] == "1366x768"
    assert "blank page" in capsys.readouterr().out


def dialogue(page, answers, **fields):
    history = [{"role": "user", "content": "A page, please."}]
    for number, answer in enumerate(answers):
        turn = {
            "role": "assistant",
            "content": answer.strip(),
            "output": answer,
            "input": f"prompt {number} ",
        }
        history += [turn, {"role": "user", "content": "More blue."}]
    task = {"problem_description": "A page, please.", "ground_truth": page}
    return {"task": task, "dialogue_history": history[:-1], "answer": None, **fields}


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def side(row, before=""):
    last = row["dialogue_history"][-1]
    return {"input": before + last["input"], "output": last["output"]}


ROWS = [
    dialogue("<p>1</p>", ["red ", "blue "], target_image="shown/1.png"),
    dialogue("<p>1</p>", ["green "], target_image="shown/1.png"),
    dialogue("<p>2</p>", ["white "]),
    dialogue("<p>2</p>", ["black "]),
]


def test_messages_show_the_target(tmp_path, monkeypatch):
    renderer = FakeRenderer()
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: renderer)
    first_picture = tmp_path / "runs/shown/1.png"
    first_picture.parent.mkdir(parents=True)
    first_picture.write_bytes(b"")
    saved = write_rows(tmp_path / "runs/saved.jsonl", ROWS)
    solution = PREFIX.format(ground_truth="<p>2</p>")
    pairs = [
        {"chosen": side(ROWS[0]), "rejected": side(ROWS[1])},
        {"chosen": side(ROWS[3], solution), "rejected": side(ROWS[2], solution)},
    ]
    output = tmp_path / "out/pairs.jsonl"
    output.parent.mkdir()
    picture_pairs(write_rows(tmp_path / "pairs.jsonl", pairs), saved, str(output))
    first, second = [json.loads(line) for line in output.read_text().splitlines()]
    shown, *said = first["chosen"]
    assert shown["role"] == "system"
    assert shown["content"][1] == {"type": "image", "image": "../runs/shown/1.png"}
    assert [message["role"] for message in said] == ["user", "assistant"] * 2
    assert [message["content"] for message in said] == ["A page, please.", "red", "More blue.", "blue "]
    assert [message["content"] for message in first["rejected"][1:]] == ["A page, please.", "green "]
    assert second["chosen"][-1]["content"] == "black "
    assert renderer.pages == ["<p>2</p>"]
    drawn = output.parent / second["chosen"][0]["content"][1]["image"]
    first_picture.write_bytes(drawn.read_bytes())
    rows = read_pairs(DataSettings(dataset=str(output)), seed=0)[0]
    assert [row.sides[0].pictures[0].width for row in rows] == [64, 64]


def test_a_pair_of_other_trajectories_is_named(tmp_path):
    saved = write_rows(tmp_path / "saved.jsonl", [row | {"target_image": "saved.jsonl"} for row in ROWS[:2]])
    pairs = write_rows(tmp_path / "pairs.jsonl", [{"chosen": side(ROWS[0]), "rejected": side(ROWS[3])}])
    with pytest.raises(DataError, match=r"pairs\.jsonl, line 1: field 'rejected' is the last turn of none"):
        picture_pairs(pairs, saved, str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
