"""simulate_interactions --task_type html: rows, pictures beside them, resume, and what it refuses."""

import io
import itertools
import json
import os

import pytest
from PIL import Image, ImageChops, ImageStat

from sweet_rl.browsers.chromium import Chromium
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories
from sweet_rl.types import StopReason
from tests.browsers.fake_renderer import FakeRenderer


@pytest.fixture
def renderer(monkeypatch):
    fake = FakeRenderer(fails={"unpaintable": "timeout"})
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: fake)
    return fake


@pytest.fixture
def tasks(tmp_path):
    rows = [
        {"problem_description": f"Shop {word}: a page", "ground_truth": f"<html><h1>{word}</h1></html>"}
        for word in ("Bread", "Cakes", "unpaintable")
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def simulate(tasks, out, **flags):
    given = {
        "task_type": "html",
        "env_model": "scripted",
        "max_failed": 1.0,  # one of three pages cannot be drawn
        "max_steps": 3,
        "quiet": True,
        "render_cache": "none",
    }
    simulate_interactions(str(tasks), str(out), **given | flags)
    return load_trajectories(out)


def test_rows_tell_their_pictures(tasks, tmp_path, renderer):
    good, other, failed = simulate(tasks, tmp_path / "out.jsonl")
    assert renderer.closed
    assert good.stop_reason is StopReason.TURN_LIMIT or good.stop_reason is StopReason.ANSWERED
    assert good.provenance["agent_model"] == "improver"
    assert good.provenance["settings"]["viewport"] == "1366x768"
    assert [draft["turn"] for draft in good.extra["drafts"]] == [0, 1, 2]
    assert good.answer == good.extra["drafts"][-1]["image"]
    assert good.answer.startswith("out_images/")
    for path in [good.extra["target_image"], *(draft["image"] for draft in good.extra["drafts"])]:
        Image.open(io.BytesIO((tmp_path / path).read_bytes())).load()
    assert good.answer != other.answer
    assert (failed.stop_reason, failed.answer) == (StopReason.WORLD_FAILED, "No answer")
    assert [message.role for message in failed.dialogue_history] == ["user"]
    assert failed.error.kind == "render_timeout"


def test_a_run_cut_off_is_finished_with_the_same_pictures(tasks, tmp_path, renderer):
    whole = tmp_path / "whole.jsonl"
    simulate(tasks, whole, best_of_n=2, batch_size=1)
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "whole_images").glob("*.png")}
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    for path in list((tmp_path / "whole_images").glob("*.png"))[::2]:
        path.unlink()
    simulate(tasks, whole, best_of_n=2, batch_size=1, to_continue=True)
    assert whole.read_bytes() == b"".join(lines)
    again = {path.name: path.read_bytes() for path in (tmp_path / "whole_images").glob("*.png")}
    assert again.items() <= pictures.items()
    with pytest.raises(UsageError, match="viewport was '1366x768', is '800x600'"):
        simulate(tasks, whole, best_of_n=2, to_continue=True, viewport="800x600")


@pytest.mark.parametrize("agent", ["blank", "generic", "target"])
def test_floors_and_ceiling(agent, tasks, tmp_path, renderer):
    rows = simulate(tasks, tmp_path / "out.jsonl", agent_model=agent, temp_path=str(tmp_path / "elsewhere"))
    assert [row.stop_reason for row in rows[:2]] == [StopReason.ANSWERED] * 2
    assert all(row.answer.startswith("elsewhere/") for row in rows[:2])
    if agent == "target":
        target = tmp_path / rows[0].extra["target_image"]
        assert (tmp_path / rows[0].answer).read_bytes() == target.read_bytes()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"task_type": "pages"}, "Known: code, html, guess_my_city"),
        ({"port": 8000}, "no server offers that"),
        ({"image_url": "gif"}, "--image_url must be png, jpeg or vllm"),
        ({"compat": "new"}, "--compat must be fixed or published"),
        ({"viewport": "big"}, "--viewport must be"),
        (
            {"agent": "scripted", "agent_model": "oracle"},
            "for --world html 'oracle'. Known: improver, generic, blank, target",
        ),
        ({"task_type": "code", "render_cache": None}, "add --world html"),
        ({"input_path": "mini:test"}, "holds no web pages"),
    ],
)
def test_what_it_refuses(flags, message, tasks, tmp_path, renderer):
    flags = dict(flags)
    with pytest.raises(UsageError, match=message):
        simulate(flags.pop("input_path", tasks), tmp_path / "out.jsonl", **flags)
    assert not (tmp_path / "out.jsonl").exists()


def test_pictures_of_another_run_are_not_drawn_over(tasks, tmp_path, renderer):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "theirs.png").write_bytes(b"precious")
    flags = {"temp_path": str(folder), "agent_model": "blank"}
    with pytest.raises(UsageError, match="holds pictures of another run"):
        simulate(tasks, tmp_path / "out.jsonl", **flags)
    simulate(tasks, tmp_path / "out.jsonl", overwrite=True, **flags)
    simulate(tasks, tmp_path / "out.jsonl", to_continue=True, **flags)
    assert (folder / "theirs.png").read_bytes() == b"precious"


def similarity(one, other):
    """1 minus the mean difference of the pixels, at a quarter of the size; what one page lacks is black."""
    height = max(one.height, other.height)
    frames = []
    for picture in (one, other):
        frame = Image.new("RGB", (one.width, height))
        frame.paste(picture, (0, 0))
        frames.append(frame.reduce(4))
    return 1 - sum(ImageStat.Stat(ImageChops.difference(*frames)).mean) / 3 / 255


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    """Three mini-web pages, played by the improver and the eye."""
    try:
        Chromium.find()
    except UsageError as error:
        if os.environ.get("SWEET_RL_REQUIRE_BROWSER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("pages") / "out.jsonl"
    simulate_interactions(
        "mini-web:test",
        str(out),
        task_type="html",
        env_model="scripted",
        num_tasks=3,
        max_steps=5,
        batch_size=1,
        page_timeout_s=100,
        browsers=1,
        render_cache="none",
        quiet=True,
    )
    return out.parent, load_trajectories(out)


@pytest.mark.browser
@pytest.mark.timeout(400)
def test_the_improver_comes_nearer_turn_by_turn(trajectories):
    folder, rows = trajectories
    for row in rows:
        assert row.stop_reason in {StopReason.ANSWERED, StopReason.TURN_LIMIT}, row.error
        target = Image.open(folder / row.extra["target_image"]).convert("RGB")
        curve = [
            similarity(target, Image.open(folder / draft["image"]).convert("RGB"))
            for draft in row.extra["drafts"]
        ]
        assert all(later >= earlier - 0.02 for earlier, later in itertools.pairwise(curve)), curve
        assert curve[-1] > curve[0] + 0.5 * (1 - curve[0]), curve  # at least half of the way
