"""The Backend world against the published environment, step by step (goldens c_environment)."""

import asyncio
import json
from itertools import chain, repeat

from sweet_rl.rollout import Episode, RolloutStats, play
from sweet_rl.types import (
    NO_RESPONSE,
    AgentTurn,
    Completion,
    Failure,
    Generation,
    StopReason,
    Task,
    UserReply,
)
from sweet_rl.worlds.backend_programming.world import BackendEnv
from sweet_rl.worlds.dialogue import parse_fixed

# The last two let an exception escape in the original; we record them.
FAILURES = {"__BAD_REQUEST__": "bad_request", "__CONNECTION_ERROR__": "connection", "__NULL__": "empty_reply"}


class ScriptedReplies:
    """A user that says what the golden says."""

    name = "golden"

    def __init__(self, replies):
        self.replies = chain(replies, repeat("nothing more"))
        self.calls = 0

    async def reply(self, context):
        self.calls += 1
        reply = next(self.replies)
        if reply in FAILURES:
            return UserReply(NO_RESPONSE, Failure(FAILURES[reply]))
        return UserReply(reply)

    async def close(self):
        pass


class ReplayPolicy:
    """An agent that says what the golden says, with the golden's prompts."""

    name = "replay"

    def __init__(self, responses):
        self.responses = responses

    async def act(self, observation):
        return Generation(f"PROMPT-{observation.turn}", Completion(self.responses[observation.turn]))

    async def close(self):
        pass


def make_task(case):
    hidden = case["hidden_information"]
    return Task("t", case["problem_description"], hidden, hidden, {}, {})


def cases(shared):
    folder = shared / "goldens/sweet_rl/c_environment"
    expected = {case["id"]: case for case in json.loads((folder / "expected.json").read_text())}
    return [(case, expected[case["id"]]) for case in json.loads((folder / "cases.json").read_text())]


def view(messages):
    return [{"role": message.role, "content": message.content} for message in messages]


def full_view(messages):
    return [
        entry | ({"input": message.input, "output": message.output} if isinstance(message, AgentTurn) else {})
        for entry, message in zip(view(messages), messages, strict=True)
    ]


def play_case(case, responses=None, **settings):
    env = BackendEnv(ScriptedReplies(case["simulator_replies"]), max_turns=case["max_steps"], **settings)
    policy = ReplayPolicy(responses or case["agent_responses"])
    return asyncio.run(play(Episode(make_task(case), 0, 0), env, policy, {}, RolloutStats()))


def test_every_step_returns_what_the_original_returned(shared):
    async def replay(case, want):
        user = ScriptedReplies(case["simulator_replies"])
        env = BackendEnv(user, max_turns=case["max_steps"])
        assert view((await env.reset(make_task(case), seed=0)).messages) == want["reset_returns"]
        for response, expected in zip(case["agent_responses"], want["returns"], strict=True):
            result = await env.step(response or "")
            seen = None if result.observation is None else view(result.observation.messages)
            assert seen == expected["observation"]
            assert (result.reward, expected["reward"]) == (None, 0)  # published: a 0 until it is graded
            assert (result.observation is None, result.over) == (expected["done"],) * 2
        assert user.calls == len(want["simulator_calls"])

    played = [asyncio.run(replay(case, want)) for case, want in cases(shared) if "raises" not in want]
    assert len(played) == 13


def test_whole_episodes_have_the_published_history_and_answer(shared):
    for case, want in cases(shared):
        if "raises" not in want:
            trajectory = play_case(case)
            assert full_view(trajectory.dialogue_history) == want["dialogue_history"], case["id"]
            assert trajectory.answer == want["answer"], case["id"]
            assert (trajectory.stop_reason is StopReason.ANSWERED) == (
                case["id"] not in {"ten_turns_without_answer", "max_steps_3"}
            )


def test_what_let_an_exception_escape_is_recorded_instead(shared):
    repaired = [case for case, want in cases(shared) if "raises" in want]
    assert [case["id"] for case in repaired] == ["null_reply", "connection_error"]
    for case in repaired:
        trajectory = play_case(case, [*case["agent_responses"], "I WANT TO ANSWER:x"])
        assert [failure.kind for failure in trajectory.failures] == [FAILURES[case["simulator_replies"][0]]]
        assert trajectory.failures[0].turn == 0
        assert trajectory.dialogue_history[2].content == NO_RESPONSE
        assert trajectory.answer == "x"


def test_the_strict_parser_differs_where_the_spec_says_so_and_nowhere_else(shared):
    """An answer before OUTPUT: counts, a second marker cuts nothing, a leading blank goes."""
    differing = {}
    for case, want in cases(shared):
        if "raises" not in want:
            trajectory = play_case(case, parser=parse_fixed)
            if trajectory.answer != want["answer"]:
                differing[case["id"]] = trajectory.answer
    assert differing == {
        "immediate_answer": "def price(row): return 1",
        "answer_marker_before_output_is_lost": "done\nOUTPUT:\nWhat about row five?",
        "answer_marker_twice": "first I WANT TO ANSWER: second",
    }


def test_a_failing_human_can_end_the_episode():
    case = {
        "problem_description": "d",
        "hidden_information": "h",
        "simulator_replies": ["__CONNECTION_ERROR__"],
        "max_steps": 10,
    }
    trajectory = play_case(case, ["q?"], stop_on_user_failure=True)
    assert trajectory.stop_reason is StopReason.USER_FAILED
    assert (trajectory.error.kind, trajectory.error.turn) == ("connection", 0)
    assert trajectory.answer == "No answer"
    assert full_view(trajectory.dialogue_history)[-1]["output"] == "q?"
