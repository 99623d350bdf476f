"""With a real browser: an agent that does what the eye says comes nearer to the wanted page, turn by turn."""

import itertools
import os

import pytest
from PIL import Image, ImageChops, ImageStat

from sweet_rl.browsers.chromium import Chromium
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories
from sweet_rl.types import StopReason

pytestmark = pytest.mark.browser


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
