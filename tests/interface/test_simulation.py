"""Episodes from Python: the user's own agent, human and world, plainly and where an event loop runs."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

import sweet_rl
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.interface.waiting import wait_for
from sweet_rl.records import read_rows
from sweet_rl.runs.reading import read_record
from sweet_rl.types import Completion, Generation, Message, Observation, StepResult, StopReason, UserReply

ROWS = [
    {
        "problem_description": f"Write f, which adds {n}.",
        "ground_truth": f"def f(x):\n    return x + {n}\n",
        "hidden_information": f"def f(x):\n    return x + {n}\n",
        "test_cases": {"a": "f(1)", "b": "f(5)"},
    }
    for n in range(3)
]


class Asking:
    """Asks once, answers with what it was told."""

    name = "asking"

    def __init__(self):
        self.loops, self.turns, self.closed = set(), 0, False

    async def act(self, observation):
        self.loops.add(asyncio.get_running_loop())
        self.turns += 1
        told = observation.messages[-1].content
        said = (
            "How much?" if observation.turn == 0 else f"I WANT TO ANSWER:\ndef f(x):\n    return x + {told}"
        )
        return Generation(f"<{told}>", Completion(said))

    async def close(self):
        self.closed = True


class Telling:
    """Reads the number from the hidden function."""

    name = "telling"

    async def reply(self, context):
        return UserReply(context.hidden_information.split("+ ")[1].strip())

    async def close(self):
        pass


class Echo:
    """A world that gives 1 for its own word."""

    def __init__(self):
        self._word = ""

    async def reset(self, task, *, seed):
        self._word = task.ground_truth
        return Observation(task.task_id, (Message("user", f"Say {self._word}"),), seed)

    async def step(self, action):
        return StepResult(
            action, action, None, float(action == self._word), True, stop_reason=StopReason.ENDED
        )

    async def close(self):
        pass


class EchoWorld(sweet_rl.World):
    name, max_turns, sources = "echo", 1, ("words",)
    train_tasks, test_tasks = "words:train", "words:test"

    def rows(self, source, where, *, limit, seed):
        return [
            {
                "task_id": f"echo/{where}{n}",
                "problem_description": "Say it.",
                "ground_truth": f"w{n}",
                "test_cases": {},
            }
            for n in range(4)
        ]

    @asynccontextmanager
    async def open(self, options, user):
        yield Echo

    def system_prompt(self):
        return ""


class Repeating(Asking):
    async def act(self, observation):
        return Generation("", Completion(observation.messages[-1].content.removeprefix("Say ")))


def said(episodes):
    return [[message.content for message in one.dialogue_history] for one in episodes]


def test_an_agent_and_a_human_of_ones_own():
    agent = Asking()
    episodes = sweet_rl.simulate("code", ROWS, agent=agent, human=Telling(), repeats=2)
    assert [one.answer.strip()[-1] for one in episodes] == ["0", "1", "2"] * 2
    assert [one.sample_index for one in episodes] == [0, 0, 0, 1, 1, 1]
    assert said(episodes[1:2]) == [
        ["Write f, which adds 1.", "How much?", "1", episodes[1].dialogue_history[-1].content]
    ]
    assert episodes[0].provenance["agent_model"] == "asking"
    assert not agent.closed  # its owner closes it


def test_the_same_where_an_event_loop_runs():
    plain = sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())

    async def cell():
        waited = sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())
        agent = Asking()
        awaited = await sweet_rl.asimulate("code", ROWS, agent=agent, human=Telling())
        assert agent.loops == {asyncio.get_running_loop()}
        assert (await sweet_rl.aplay("code", ROWS[2], agent=agent, human=Telling())).answer == plain[2].answer
        return waited, awaited

    waited, awaited = asyncio.run(cell())
    assert waited == awaited == plain


def test_all_calls_share_a_loop_so_that_connections_live_on():
    agent = Asking()
    for _ in range(2):
        sweet_rl.play("code", ROWS[0], agent=agent, human=Telling())
    assert len(agent.loops) == 1


def test_an_agent_that_would_wait_for_itself_is_told():
    class Nested(Asking):
        async def act(self, observation):
            sweet_rl.play("code", ROWS[0])

    with pytest.raises(RuntimeError, match="awaits aplay"):
        sweet_rl.play("code", ROWS[0], agent=Nested(), human=Telling())


def test_ctrl_c_cancels_and_cleans_up():
    ended = []

    async def work():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        wait_for(work(), instead="")
    assert ended


def test_a_forked_process_has_a_loop_of_its_own():
    code = (
        "import os, sweet_rl; sweet_rl.play(); child = os.fork()\n"
        "if not child: os._exit(0 if sweet_rl.play().answer else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_names_stand_for_the_worlds_own():
    (one,) = sweet_rl.simulate("code", "mini:test", agent="oracle", human="scripted", num_tasks=1)
    assert one.answer.strip() == one.task.ground_truth.strip()
    assert sweet_rl.play("lantern").stop_reason is StopReason.ENDED
    assert sweet_rl.play("lantern", options={"max_turns": 1}).stop_reason is StopReason.TURN_LIMIT


def test_a_place_stands_for_an_agent_and_a_human():
    places = {"agent": f"{__name__}:Asking", "human": f"{__name__}:Telling"}
    assert said(sweet_rl.simulate("code", ROWS, **places)) == said(
        sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling())
    )


def test_a_world_of_ones_own_by_its_own_list():
    episodes = sweet_rl.simulate(EchoWorld(), agent=Repeating(), num_tasks=3)
    assert [(one.task.task_id, one.reward) for one in episodes] == [(f"echo/test{n}", 1.0) for n in range(3)]
    with pytest.raises(UsageError, match="no tasks of echo"):
        sweet_rl.simulate(EchoWorld(), ROWS, agent=Repeating())


def test_a_stopped_run_is_finished_in_its_file(tmp_path):
    path = tmp_path / "runs/episodes.jsonl"
    path.parent.mkdir()

    class Failing(Asking):
        async def act(self, observation):
            if self.turns == 5:
                raise ServiceError("the server is down")
            return await super().act(observation)

    settings = {"human": Telling(), "repeats": 2, "output_path": path}
    with pytest.raises(ServiceError):
        sweet_rl.simulate("code", ROWS, agent=Failing(), concurrency=1, **settings)
    assert len(list(read_rows(path))) == 2
    assert read_record(tmp_path / "runs/episodes.jsonl.run.json")["status"] == "failed"
    with pytest.raises(UsageError, match="already holds a run"):
        sweet_rl.simulate("code", ROWS, agent=Asking(), **settings)
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        sweet_rl.simulate("code", ROWS, agent=Asking(), to_continue=True, seed=1, **settings)
    agent = Asking()
    episodes = sweet_rl.simulate("code", ROWS, agent=agent, to_continue=True, **settings)
    assert agent.turns == 2 * 4  # of six episodes two were there
    assert said(episodes) == said(sweet_rl.simulate("code", ROWS, agent=Asking(), human=Telling(), repeats=2))
    record = read_record(tmp_path / "runs/episodes.jsonl.run.json")
    assert (record["status"], record["stage"], len(record["sessions"])) == ("finished", "simulate", 2)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("no option of code 'max_turn'.*did you mean max_turns", {"options": {"max_turn": 3}}),
        ("leaveout_prob is an option of auto_explore", {"options": {"leaveout_prob": 0.5}}),
        ("takes BackendOptions", {"options": sweet_rl.Options()}),
        ("no agent of code 'questioneer'.*did you mean questioner", {"agent": "questioneer"}),
        ("lacks a name or `async def act`", {"agent": object()}),
        ("has its own instructions", {"agent": Asking(), "agent_prompt": "llm_agent_mini_prompt"}),
        ("lacks a name or `async def reply`", {"human": Asking()}),
        ("no human of code 'gpt'", {"human": "gpt"}),
        ("asks no human", {"world": "lantern", "tasks": None, "human": Telling()}),
        ("holds no tasks", {"tasks": []}),
        ("is about a file|are about a file", {"overwrite": True}),
        ("at least 1", {"repeats": 0}),
        ("There is no world", {"world": "lanterm"}),
    ],
)
def test_what_does_not_go_together_is_refused(words, settings):
    with pytest.raises(UsageError, match=words):
        sweet_rl.simulate(**{"world": "code", "tasks": ROWS, **settings})


def test_everything_that_is_offered_is_there():
    assert {name for name in sweet_rl.__all__ if getattr(sweet_rl, name, None) is None} == set()
    assert set(sweet_rl.__all__) <= set(dir(sweet_rl))
    assert "code" in sweet_rl.worlds.names()
    with pytest.raises(AttributeError, match="simulat'"):
        sweet_rl.simulat  # noqa: B018
