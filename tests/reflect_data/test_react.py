"""Models that play without training: what they are sent, what their replies are taken for."""

import asyncio
import json

import pytest

from sweet_rl.openai_client import RequestFailed
from sweet_rl.reflect_data.teachers import EmbeddedTeacher, NoExpert, extract_action, play
from sweet_rl.types import Failure
from sweet_rl.worlds.dangerous_taxi.game import START_STATES, TaxiGame, plan
from sweet_rl.worlds.dangerous_taxi.tasks import TaxiExpert

LABELS = [str(label) for label in range(6)]


def test_published_replies(shared):
    golden = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["extract_action"]
    assert {reply: extract_action(reply, LABELS, compat="published") for reply in golden} == golden


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("Action: 3", "3"),
        ("I think action 2 is best", "2"),
        ("Action 12", None),
        ("take 57", None),
        ("57 would be too much, so 4", "4"),
        ("go south", None),
        ("", None),
    ],
)
def test_a_label_is_a_word(reply, label):
    assert extract_action(reply, LABELS) == label


class Listening(EmbeddedTeacher):
    name = "m"

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    async def say(self, asked):
        self.asked.append(asked.messages)
        reply = self.replies.pop(0) if self.replies else "Action: 4"
        if not reply:
            raise RequestFailed(Failure("empty_reply", "''"))
        return reply


def run(teacher, expert=None, **flags):
    game = TaxiGame(max_turns=15)
    game.begin(START_STATES[7], "full")
    expert = TaxiExpert(game) if expert is None else expert
    return game, asyncio.run(play(game, expert, teacher, seed=0, **flags))


def test_the_embedded_player_delivers():
    game, played = run(EmbeddedTeacher())
    assert played.steps == len(plan(START_STATES[7]))
    assert played.cost < game.success_threshold
    assert not played.failures


def test_it_thinks_first_and_forgets_what_was_before():
    teacher = Listening("I see a taxi.", "Action: 0", "Still a taxi.")
    run(teacher, NoExpert())
    think, act, again, _ = (call[-1].content for call in teacher.asked[:4])
    assert [len(call) for call in teacher.asked] == [2] * len(teacher.asked)
    assert "Action 0: move south" not in think
    assert "I see a taxi." in act
    assert "Action 0: move south" in act
    assert "I see a taxi." not in again
    _, one = run(Listening(), NoExpert(), react=False)
    assert one.steps == 1


def test_a_reply_without_an_action_costs_a_step_and_is_kept():
    _, played = run(Listening("thought", "I would rather not"), NoExpert())
    assert played.failures == [Failure("malformed_reply", "I would rather not", turn=0)]
    assert played.steps == 2
    assert played.cost == pytest.approx(0.05 + 0.5)
    _, published = run(Listening("thought", "I would rather not"), NoExpert(), compat="published")
    assert published.failures == played.failures


def test_the_command_itself_is_an_action():
    _, played = run(Listening("thought", "pickup passenger"), NoExpert())
    assert not played.failures
    assert played.steps == 1


def test_a_silent_model_is_sent_the_state_again():
    teacher = Listening("", "", "thought", "Action: 4")
    _, played = run(teacher, NoExpert())
    assert teacher.asked[0] == teacher.asked[1] == teacher.asked[2]
    assert [failure.kind for failure in played.failures] == ["empty_reply"] * 2
    assert played.steps == 1


class Unserved(EmbeddedTeacher):
    name = "m"

    async def say(self, asked):
        raise RequestFailed(Failure("server_error", "overloaded", 500))


def test_without_a_service_nothing_is_said_about_the_model():
    with pytest.raises(RequestFailed, match="overloaded"):
        run(Unserved(), NoExpert())
    _, published = run(Unserved(), NoExpert(), compat="published")
    assert published.moved.over
    _, silent = run(Listening(*[""] * 6), NoExpert())  # that is the model's own
    assert silent.moved.over
