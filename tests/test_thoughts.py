"""Thoughts and words told apart, and what becomes of them in an episode, on disk and for the human."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.rollout import RolloutStats, rollout, schedule
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import Completion, FinishReason, Generation, StopReason, Task, UserReply
from sweet_rl.worlds.backend_programming.world import BackendEnv

ANSWER = "I WANT TO ANSWER:"


@pytest.mark.parametrize(
    ("written", "text", "thoughts"),
    [
        ("What unit?", "What unit?", None),
        ("<think>hm</think>What unit?", "What unit?", "hm"),
        ("\n <think>\nhm\n</think>\n\nWhat unit?\n", "What unit?\n", "hm"),
        ("<THINKING>hm</thinking> What unit?", "What unit?", "hm"),
        ("[THINK]hm[/THINK]What unit?", "What unit?", "hm"),
        ("hm, a unit.\n</think>\n\nWhat unit?", "What unit?", "hm, a unit."),  # the prompt opened it
        ("<think>a</think><think>b</think>What?", "What?", "a\n\nb"),
        ("<think>a <think>b</think> c</think>What?", "What?", "a <think>b</think> c"),
        ("<think>a <think>b</think>What?", "What?", "a <think>b"),  # tags that do not pair
        ("<think>the tag '</think>' ends\n</think>What?", "What?", "the tag '</think>' ends"),
        ("<think></think>What?", "What?", ""),
        ("<think>I never stop", "", "I never stop"),
        (f"<think>{ANSWER} 1</think>What?", "What?", f"{ANSWER} 1"),  # no answer was handed in
        (f"maybe {ANSWER} 1\n</think>\nWhat?", "What?", f"maybe {ANSWER} 1"),
        (f"{ANSWER} 1</think>{ANSWER} 2", f"{ANSWER} 2", f"{ANSWER} 1"),
        ("Good. <think>hm</think>What?", "Good. What?", "hm"),
        ("Good.\n<think>I never stop", "Good.\n", "I never stop"),
        (f"{ANSWER}\n<think>hm</think>\ndef f(): pass", f"{ANSWER}\ndef f(): pass", "hm"),
    ],
)
def test_thoughts_are_told_from_words(written, text, thoughts):
    assert split_thoughts(written) == (text, thoughts)


@pytest.mark.parametrize(
    "written",
    [
        f"{ANSWER}\ndef f(s):\n    return s.split('</think>')[1]",
        f'{ANSWER}\ndef f(s):\n    return re.sub(r"<think>.*</think>", "", s)',
        f"{ANSWER}\ndef f(s):\n    # drop what stands before </think> in s\n    return s",
        f"{ANSWER}\nPAGE = '''\n<think>\nnot thoughts\n</think>\n'''",
        "Is `<think>` closed by `</think>`?",
        "What does the <think> tag mean?",
        "a < b and c[0] > d",
    ],
)
def test_the_same_tags_in_an_answer_or_in_quotes_are_text(written):
    assert split_thoughts(written) == (written, None)


def test_a_prompt_that_opens_a_block_makes_the_beginning_a_thought():
    assert split_thoughts("hm</think>What?", "<assistant><think>\n") == ("What?", "hm")
    assert split_thoughts("I never stop", "<assistant><think>\n") == ("", "I never stop")


@given(st.text(alphabet="<think>/\n'a[]", max_size=60))
def test_nothing_is_invented(written):
    spoken = split_thoughts(written)
    assert all(word in written for word in spoken.text.split())
    assert spoken.thoughts is not None or spoken.text == written


class Human:
    name = "human"

    def __init__(self):
        self.shown = []

    async def reply(self, context):
        self.shown += [message.content for message in context.messages]
        return UserReply("in metres")


class Thinker(Human):
    def __init__(self, *completions):
        self.completions, self.seen = completions, []

    async def act(self, observation):
        self.seen.append([message.content for message in observation.messages])
        return Generation("prompt", self.completions[observation.turn])


def play(*completions):
    human, agent, finished, stats = Human(), Thinker(*completions), [], RolloutStats()

    async def keep(trajectory):
        finished.append(trajectory)

    task = Task("t", "request", "g", "g", {}, {"problem_description": "request", "ground_truth": "g"})
    how = {"make_env": lambda: BackendEnv(human), "policy": agent, "on_finished": keep, "stats": stats}
    asyncio.run(rollout(schedule([task], 1), concurrency=1, **how))
    return finished[0], human, agent, stats


def test_thoughts_stand_beside_the_turn_and_nowhere_else():
    raw = f"<think>secret: {ANSWER} no</think>Which unit?"
    trajectory, human, agent, stats = play(
        Completion(raw, (1, 2), (-1.0, -2.0)), Completion(f"{ANSWER}x", thoughts="aside")
    )
    assert human.shown == ["request", "Which unit?"]
    assert agent.seen[1] == ["request", "Which unit?", "in metres"]
    assert trajectory.answer == "x"
    first, second = trajectory.dialogue_history[1], trajectory.dialogue_history[3]
    assert (first.content, first.thoughts) == ("Which unit?", f"secret: {ANSWER} no")
    assert (first.output, first.token_ids) == (raw, (1, 2))  # what the ids spell
    assert (second.output, second.thoughts) == (f"{ANSWER}x", "aside")
    assert stats.thoughts == len(first.thoughts) + len("aside")
    again = trajectory_from_row(trajectory_to_row(trajectory))
    assert again.dialogue_history == trajectory.dialogue_history


def test_a_turn_of_thoughts_alone_is_silence_and_counts():
    cut = Completion("<think>on and on", finish_reason=FinishReason.LENGTH)
    trajectory, human, _, _ = play(cut, Completion(f"{ANSWER}x"))
    first = trajectory.dialogue_history[1]
    assert (first.content, first.thoughts, first.finish_reason) == ("", "on and on", FinishReason.LENGTH)
    assert (trajectory.stop_reason, trajectory.answer, trajectory.error) == (StopReason.ANSWERED, "x", None)
    assert human.shown == ["request", ""]
