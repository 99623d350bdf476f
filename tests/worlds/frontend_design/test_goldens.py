"""The Frontend world against the published environment, step by step (goldens f_html)."""

import asyncio
import json
from itertools import chain, count, repeat

import pytest

from sweet_rl.browsers import RenderedPage, RenderFailed
from sweet_rl.errors import EpisodeError, StorageError
from sweet_rl.openai_client import ChatReply, RequestFailed
from sweet_rl.rollout import Episode, RolloutStats, play
from sweet_rl.types import Failure, StopReason, Task
from sweet_rl.users.model import DRAFT_CAPTION, NO_DRAFT, TARGET_CAPTION, VisionUser
from sweet_rl.worlds.frontend_design.world import FrontendEnv, PictureFolder
from tests.worlds.backend_programming.test_goldens import ReplayPolicy, full_view, view

CAPTIONS = {
    DRAFT_CAPTION: "<CAPTION_DRAFT_IMAGE>",
    NO_DRAFT: "<CAPTION_NO_DRAFT>",
    TARGET_CAPTION: "<CAPTION_TARGET_IMAGE>",
}


class Client:
    """What the golden's server said, and every request."""

    def __init__(self, replies):
        self.replies, self.calls = chain(replies, repeat("nothing more")), []

    async def chat(self, body):
        self.calls.append(body)
        reply = next(self.replies)
        if reply == "__BAD_REQUEST__":
            raise RequestFailed(Failure("bad_request", status=400))
        return ChatReply(reply, "stop")

    async def close(self):
        pass


class Driver:
    """The golden's browser: the n-th picture is the bytes IMG<n>."""

    def __init__(self, fails):
        self.fails, self.pages, self.number = fails, [], count(1)

    async def render(self, html):
        self.pages.append(html)
        number = next(self.number)
        if number in self.fails:
            raise RenderFailed(Failure("crash", f"screenshot {number}"))
        return RenderedPage(b"IMG%d" % number, 1, 1)

    async def close(self):
        pass


class Temp:
    def save(self, task, image, seed=None, turn=0):
        return "target" if seed is None else "<TEMP>/4_<time>.png"


class World:
    def __init__(self, golden, case, **settings):
        self.case = case
        self.client, self.driver = Client(case["simulator_replies"]), Driver(case["driver_fails_on_calls"])
        user = VisionUser(
            self.client,
            "vision-model",
            prompt_template=golden["simulator_prompt"],
            image_url="jpeg" if case["gpt_client"] else "vllm",
        )
        self.env = FrontendEnv(user, self.driver, Temp(), max_turns=case["max_steps"], **settings)
        page = case["ground_truth_html"]
        self.task = Task("t", case["problem_description"], page, page, {}, {})

    def play(self):
        policy = ReplayPolicy(self.case["agent_responses"])
        return asyncio.run(play(Episode(self.task, 0, 0), self.env, policy, {}, RolloutStats()))

    def published_calls(self):
        """Our requests with our captions called what the golden calls them."""
        text = json.dumps(self.client.calls)
        for ours, theirs in CAPTIONS.items():
            text = text.replace(json.dumps(ours), json.dumps(theirs))
        return json.loads(text)


@pytest.fixture(scope="module")
def golden(shared):
    environment = json.loads((shared / "goldens/sweet_rl/f_html/html.json").read_text())["environment"]
    expected = {case["id"]: case for case in environment["expected"]}
    return environment | {"pairs": [(case, expected[case["id"]]) for case in environment["cases"]]}


def test_every_step_returns_what_the_original_returned(golden):
    async def replay(world, want):
        assert view((await world.env.reset(world.task, seed=0)).messages) == want["reset_returns"]
        for response, expected in zip(world.case["agent_responses"], want["returns"], strict=True):
            result = await world.env.step(response)
            seen = None if result.observation is None else view(result.observation.messages)
            assert seen == expected["observation"]
            assert (result.reward, expected["reward"]) == (None, 0)  # published: a 0 until it is graded
            assert (result.observation is None, result.over) == (expected["done"],) * 2
        assert result.answer == want["answer"]
        assert world.driver.pages == want["pages_given_to_driver"]
        assert world.published_calls() == want["simulator_calls"]

    played = 0
    for case, want in golden["pairs"]:
        if case["id"] != "ground_truth_render_fails":
            asyncio.run(replay(World(golden, case, forget_answer=True), want))
            played += 1
    assert played == 8


def test_whole_episodes_have_the_published_history_and_answer(golden):
    for case, want in golden["pairs"]:
        trajectory = World(golden, case, forget_answer=True).play()
        assert full_view(trajectory.dialogue_history) == want["dialogue_history"], case["id"]
        assert trajectory.answer == want["answer"], case["id"]


def test_a_page_that_nobody_can_see_ends_the_episode_before_the_agent_is_asked(golden):
    """Recorded as failed, so that pair building can leave it out."""
    pairs = {case["id"]: (case, want) for case, want in golden["pairs"]}
    case, want = pairs["ground_truth_render_fails"]
    world = World(golden, case)
    trajectory = world.play()
    assert trajectory.stop_reason is StopReason.WORLD_FAILED
    assert (trajectory.error.kind, trajectory.error.turn) == ("render_crash", 0)
    assert view(trajectory.dialogue_history) == want["dialogue_history"]
    assert world.driver.pages == want["pages_given_to_driver"]
    assert world.client.calls == []

    async def go_on():
        with pytest.raises(EpisodeError):
            await world.env.reset(world.task, seed=0)
        return await world.env.step("<html></html>")

    world.driver.number = count(1)
    after = asyncio.run(go_on())
    assert after.observation is None
    assert world.client.calls == []


def test_a_draft_that_fails_does_not_take_away_an_earlier_one(golden):
    """The last good draft stays the answer; the published way beside it."""
    case = dict(golden["cases"][0]) | {
        "agent_responses": ["<html>a</html>", "<html>b</html>", "no page", "I WANT TO ANSWER: that"],
        "simulator_replies": [],
        "driver_fails_on_calls": [3],
    }
    world = World(golden, case)
    kept = world.play()
    assert kept.answer == "<TEMP>/4_<time>.png"
    assert kept.extra["drafts"] == [
        {"turn": 0, "image": "<TEMP>/4_<time>.png", "failure": None},
        {"turn": 1, "image": None, "failure": "render_crash"},
    ]
    assert kept.extra["target_image"] == "target"
    assert [(failure.kind, failure.turn) for failure in kept.failures] == [("render_crash", 1)]
    pictures = [len(call["messages"][0]["content"]) for call in world.published_calls()]
    assert pictures == [5, 4, 5]  # draft, none for the one that failed, the last good one again
    assert World(golden, case, forget_answer=True).play().answer is None


def test_a_long_reply_is_cut(golden):
    case = dict(golden["cases"][0]) | {"simulator_replies": ["é" * 1500]}
    trajectory = World(golden, case).play()
    assert trajectory.dialogue_history[2].content == "é" * 1000


def task(task_id):
    return Task(task_id, "p", "<html></html>", "<html></html>", {}, {})


def folder(tmp_path, **settings):
    return PictureFolder(tmp_path / "run_images", beside=tmp_path, **settings)


def test_names_tell_task_sample_and_turn_and_paths_are_relative(tmp_path):
    pictures = folder(tmp_path, samples={("t-1", 7): 0, ("t-1", 8): 1})
    assert pictures.save(task("t-1"), b"a", 7, 0) == "run_images/t-1_0_0.png"
    assert pictures.save(task("t-1"), b"b", 8, 3) == "run_images/t-1_1_3.png"
    assert pictures.save(task("t-1"), b"c", 9, 0) == "run_images/t-1_seed9_0.png"
    assert pictures.save(task("t-1"), b"d") == "run_images/t-1_target.png"
    names = ["t-1_0_0.png", "t-1_1_3.png", "t-1_seed9_0.png", "t-1_target.png"]
    files = (tmp_path / "run_images").iterdir()
    assert {file.name: file.read_bytes() for file in files} == dict(
        zip(names, [b"a", b"b", b"c", b"d"], strict=True)
    )


def test_a_resumed_run_overwrites_its_own(tmp_path):
    first = folder(tmp_path).save(task("t"), b"half of a run", 1, 0)
    assert folder(tmp_path).save(task("t"), b"whole", 1, 0) == first
    assert [file.read_bytes() for file in (tmp_path / "run_images").iterdir()] == [b"whole"]


def test_no_task_id_leaves_the_folder_or_shares_a_name(tmp_path):
    pictures = folder(tmp_path)
    ids = ["../../etc/x", "a/b", "a b", "a-b", "é", "ü", "x" * 300, "x" * 301, "a#2"]
    paths = [pictures.save(task(i), i.encode()) for i in ids]
    assert len(set(paths)) == len(ids)
    assert all((tmp_path / path).parent == tmp_path / "run_images" for path in paths)
    assert [(tmp_path / path).read_bytes().decode() for path in paths] == ids


def test_a_folder_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    from pathlib import Path

    pictures = PictureFolder(Path("~/pictures"), beside=tmp_path / "runs")
    assert pictures.save(task("t"), b"x") == "../pictures/t_target.png"


def test_a_disk_that_takes_nothing(tmp_path):
    (tmp_path / "run_images").write_text("a file is in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        folder(tmp_path).save(task("t"), b"x")
