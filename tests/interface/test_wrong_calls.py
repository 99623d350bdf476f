"""Wrong calls from Python: each is refused by a sentence that says what was given and what is expected."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.errors import SweetRLError
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.types import Completion, Generation, Score, UserReply
from tests.interface.test_simulation import ROWS, Asking, Echo, EchoWorld, Telling

EPISODE = sweet_rl.Trajectory(sweet_rl.records.task_from_row(ROWS[0]), (), "def f(x): return x", reward=1.0)

OTHER = replace(EPISODE, task=sweet_rl.records.task_from_row(ROWS[1]))


def player(method, returns, **more):
    """An object whose method returns something, as it stands."""

    async def answer(self, _):
        return returns() if callable(returns) else returns

    return type("Mine", (), {"name": "mine", method: answer, **more})()


async def later():
    """A coroutine that somebody forgot to await."""


def said(agent=None, human="auto", **more):
    return sweet_rl.simulate("code", ROWS[:1], agent=agent or (lambda _: "How much?"), human=human, **more)


class Half(sweet_rl.World):
    name = "half"


def world_with(**more):
    """A world whose episodes go wrong, as they stand."""

    class Wrong(EchoWorld):
        @asynccontextmanager
        async def open(self, options, user):
            yield type("Env", (Echo,), more)

    return Wrong()


async def nothing(*_, **__):
    """What a method does whose author forgot `return`."""


class NoScores:
    def grade(self, trajectories):
        yield from (1.0 for _ in trajectories)


SIMULATE = {
    "no option of code 'max_turn'.*did you mean max_turns": {"options": {"max_turn": 3}},
    "leaveout_prob is an option of auto_explore": {"options": {"leaveout_prob": 0.5}},
    "takes BackendOptions": {"options": sweet_rl.Options()},
    "no agent of code 'questioneer'.*did you mean questioner": {"agent": "questioneer"},
    "has its own instructions": {"agent": Asking(), "agent_prompt": "llm_agent_mini_prompt"},
    "lacks a name or `async def reply`": {"human": Asking()},
    "no human of code 'gpt'": {"human": "gpt"},
    "asks no human": {"world": "lantern", "tasks": None, "human": Telling()},
    "holds no tasks": {"tasks": []},
    "are about a file": {"overwrite": True},
    "There is no world": {"world": "lanterm"},
    "num_tasks must be a whole number, at least 1; got '5' \\(str\\)": {"num_tasks": "5"},
    "num_tasks must be a whole number, at least 1; got '6' \\(str\\)": {"limit": "6"},
    "num_tasks must be a whole number, at least 1; got 0": {"num_tasks": 0},
    "num_tasks must be a whole number, at least 1; got -1": {"limit": -1},
    "num_tasks must be .*got True": {"num_tasks": True},
    "limit is another name of num_tasks": {"limit": 1, "num_tasks": 1},
    "repeats must be a whole number, at least 1; got 0": {"repeats": 0},
    "repeats must be .*got 1.5": {"repeats": 1.5},
    "concurrency must be .*got None": {"concurrency": None},
    "seed must be a whole number; got 'x'": {"seed": "x"},
    "options must be like .*got 5": {"options": 5},
    "^max_turns must be a whole number, got '5'": {"options": {"max_turns": "5"}},
    "overwrite must be True or False; got 'no'": {"overwrite": "no"},
    "output_path must be the path of a .jsonl file; got 5": {"output_path": 5},
    "output_path '/' is a folder": {"output_path": "/"},
    "agent_prompt must be a file.*got 5": {"agent_prompt": 5},
    "world must be a name .*got 5": {"world": 5},
    "world must be a name .*got None": {"world": None},
    "world is the class EchoWorld: give an object of it, EchoWorld\\(\\)": {"world": EchoWorld},
    "The world Half has no rows, open": {"world": Half()},
    "tasks must be a list of tasks .*got 5": {"tasks": 5},
    "tasks must hold tasks.*at place 0 it got 'mini:test'.*load_tasks": {"tasks": ["mini:test"]},
    "tasks must be a list of tasks .*\\[task\\].*got Task": {"tasks": EPISODE.task},
    "tasks must be a list of tasks .*got .'problem": {"tasks": ROWS[0]},
    "tasks must hold tasks.*at place 1 it got None": {"tasks": [ROWS[0], None]},
    "agent must be a name.*got None": {"agent": None},
    "agent must be a name.*got 5 .*lacks a name or `async def act`": {"agent": 5},
    "agent is the class Asking: give an object of it": {"agent": Asking},
    "The agent <lambda>\\(\\) is a function of the dialogue: it must take one argument": {
        "agent": lambda: "x"
    },
    "human is the class Telling": {"human": Telling},
    "human must be a name.*got 5": {"human": 5},
    "The human <lambda>\\(a, b\\) is a function of the dialogue": {"human": lambda a, b: "x"},
    "There is no scripted agent of code 'exprt'": {"agent": "scripted/exprt"},
    "The agent is behind a server: name it with base_url": {"agent": "openai/m"},
    "The human is behind a server: name it with human_base_url": {"human": "openai/m"},
    "the agent expert is behind none": {"agent": "expert", "base_url": "http://127.0.0.1:1/v1"},
    "the human telling is behind none": {"human": Telling(), "human_base_url": "http://127.0.0.1:1/v1"},
    "A base URL looks like http://host:8000/v1, got 'localhost'": {"agent": "m", "base_url": "localhost"},
    "base_url must be an address .*got 8000": {"agent": "openai/m", "base_url": 8000},
}


@pytest.mark.parametrize(("words", "given"), SIMULATE.items(), ids=SIMULATE)
def test_simulate_refuses(words, given, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    kept = tmp_path / "kept.jsonl"
    kept.write_text("an earlier run\n")
    place = {} if {"output_path", "overwrite"} & given.keys() else {"output_path": kept, "overwrite": True}
    with pytest.raises(SweetRLError, match=words):
        sweet_rl.simulate(**{"world": "code", "tasks": ROWS, **place, **given})
    with pytest.raises(SweetRLError, match=words):
        asyncio.run(sweet_rl.asimulate(**{"world": "code", "tasks": ROWS, **given}))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.jsonl"]
    assert kept.read_text() == "an earlier run\n"


OTHERS = {
    "evaluate: .*at least 1; got '5'|num_tasks must be .*got '5'": lambda: sweet_rl.evaluate("code", ROWS, num_tasks="5"),
    "no argument of evaluate 'nun_tasks' .did you mean num_tasks": lambda: sweet_rl.evaluate("code", nun_tasks=5),
    "no agent of code ''": lambda: sweet_rl.play("code", agent=""),
    "no human of code ''": lambda: sweet_rl.play("code", human=""),
    "^device must be auto, cpu": lambda: sweet_rl.credit([EPISODE], "embedded", device="gpu"),
    "base_urls must be an address .*got 5": lambda: OpenAIClient(5),
    "base_urls must be an address .*got \\[\\]": lambda: OpenAIClient([]),
    "A base URL looks like .*got 'localhost:8000'": lambda: OpenAIClient("localhost:8000"),
    "client must be an OpenAIClient: OpenAIClient..http": lambda: OpenAIPolicy("http://127.0.0.1:1/v1", "m"),
    "task must be one task .*simulate; got 5": lambda: sweet_rl.play("code", 5),
    "task must be one task .*simulate; got \\[": lambda: sweet_rl.play("code", ROWS),
    "grade takes an answer with its task, or a list of trajectories.*got 5": lambda: sweet_rl.grade(5),
    "grade takes .*at place 0 it got \\{\\} \\(dict\\)": lambda: sweet_rl.grade([{}]),
    "grade takes .*Put it into a list: \\[episode\\]": lambda: sweet_rl.grade(EPISODE),
    "grade takes .*got PosixPath": lambda: sweet_rl.grade(Path("x.jsonl")),
    "task must be a list of tasks.*got 5": lambda: sweet_rl.grade("x", 5),
    "task must be a list of tasks.*got 'mini:test'": lambda: sweet_rl.grade("x", "mini:test"),
    "task must hold tasks.*at place 0 it got 'x'": lambda: sweet_rl.grade(["a"], ["x"]),
    "workers must be a whole number, or None; got '2'": lambda: sweet_rl.grade("x", ROWS[0], workers="2"),
    "timeout_s must be seconds, a number; got '1'": lambda: sweet_rl.grade("x", ROWS[0], timeout_s="1"),
    "unsafe_no_sandbox must be True or False; got 'no'": lambda: sweet_rl.grade("x", ROWS[0], unsafe_no_sandbox="no"),
    "grader must be a name, or an object with `def grade": lambda: sweet_rl.grade([EPISODE], grader=5),
    "grader must .*got <class": lambda: sweet_rl.grade([EPISODE], grader=NoScores),
    "yielded 1.0 .float., .*sweet_rl.Score": lambda: sweet_rl.grade([EPISODE], grader=NoScores()),
    "pairs takes a list of trajectories.*got 'x'.*load_trajectories": lambda: sweet_rl.pairs("x"),
    "pairs takes .*got 5": lambda: sweet_rl.pairs(5),
    "pairs takes .*trajectory_from_row": lambda: sweet_rl.pairs([{"task": {}}]),
    "margin must be a number, or None; got '0.1'": lambda: sweet_rl.pairs([EPISODE], margin="0.1"),
    "has 2 episodes of the task '.*' and 1 of '": lambda: sweet_rl.pairs([EPISODE, EPISODE, OTHER]),
    "Pass overwrite to replace it, or choose another path": lambda: sweet_rl.view([EPISODE], __file__),
    "view takes .*got 5": lambda: sweet_rl.view(5),
    "view takes .*single one": lambda: sweet_rl.view(EPISODE),
    "no file|does not exist|is not there|There is no": lambda: sweet_rl.view("missing.jsonl"),
    "height must be a whole number": lambda: sweet_rl.view([EPISODE], height="tall"),
    "path must be the path of an .html file; got 5": lambda: sweet_rl.view([EPISODE], 5),
    "credit takes .*got 5": lambda: sweet_rl.credit(5, "embedded"),
    "critic must be the critic's folder.*got 5": lambda: sweet_rl.credit([EPISODE], 5),
    "hidden must be True or False; got 'no'": lambda: sweet_rl.credit([EPISODE], "embedded", hidden="no"),
    "path must be the critic's folder": lambda: sweet_rl.Critic(5),
    "no advantage 'papers' .did you mean paper": lambda: sweet_rl.Critic("embedded", advantage="papers"),
    "compare takes .*got 5": lambda: sweet_rl.compare(5, 6),
    "no interval 'students'": lambda: sweet_rl.compare([EPISODE], [EPISODE], interval="students"),
    "the name of a list or a file.*got 5": lambda: sweet_rl.load_tasks(5),
    "number of tasks must be .*got '5'": lambda: sweet_rl.load_tasks("mini:test", num_tasks="5"),
    "`act` of the agent mine must return sweet_rl.Generation.*got 'x' \\(str\\)": lambda: said(player("act", "x")),
    "`act` of the agent mine .*got None.*ends without `return`": lambda: said(player("act", None)),
    "`act` of the agent mine .*Put `await` before": lambda: said(player("act", later)),
    "`act` of the agent mine .*got Generation": lambda: said(player("act", Generation("x", "y"))),
    "`act` of the agent mine .*got Generation.*None": lambda: said(player("act", Generation("", Completion(None)))),
    "`reply` of the human mine must return sweet_rl.UserReply.*None": lambda: said(human=player("reply", None)),
    "`reply` of the human mine .*got UserReply": lambda: said(human=player("reply", UserReply(5))),
    "The agent <lambda> must return the text of its turn, a str; got None": lambda: said(lambda _: None),
    "The agent <lambda> must return .*got Completion": lambda: said(lambda _: Completion("x")),
    "The human <lambda> must return .*got 5": lambda: said(human=lambda _: 5),
    "`step` of the world echo must return sweet_rl.StepResult.*got None": lambda: sweet_rl.play(world_with(step=nothing), agent=lambda _: "x"),
    "`reset` of the world echo must return sweet_rl.Observation.*got None": lambda: sweet_rl.play(world_with(reset=nothing), agent=lambda _: "x"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "call"), OTHERS.items(), ids=OTHERS)
@pytest.mark.filterwarnings("error")
def test_the_others_refuse(words, call):
    with pytest.raises(SweetRLError, match=words):
        call()


def test_a_grader_that_scores_right_is_taken():
    class Halves:
        def grade(self, trajectories):
            yield from (Score(0.5) for _ in trajectories)

    assert sweet_rl.grade([EPISODE], grader=Halves())[0].reward == 0.5
