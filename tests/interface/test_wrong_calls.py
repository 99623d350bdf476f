"""Wrong calls from Python: each is refused by a sentence that says what was given and what is expected."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.errors import SweetRLError
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.openai import OpenAIPolicy
from tests.interface.test_simulation import ROWS, Asking, EchoWorld, Telling

EPISODE = sweet_rl.Trajectory(sweet_rl.records.task_from_row(ROWS[0]), (), "def f(x): return x", reward=1.0)

OTHER = replace(EPISODE, task=sweet_rl.records.task_from_row(ROWS[1]))


def player(method, returns, **more):
    """An object whose method returns something, as it stands."""

    async def answer(self, _):
        return returns() if callable(returns) else returns

    return type("Mine", (), {"name": "mine", method: answer, **more})()


def said(agent=None, human="auto", **more):
    return sweet_rl.simulate("code", ROWS[:1], agent=agent or (lambda _: "How much?"), human=human, **more)


class NoScores:
    def grade(self, trajectories):
        yield from (1.0 for _ in trajectories)


SIMULATE = {
    "no option of code 'max_turn'.*did you mean max_turns": {"options": {"max_turn": 3}},
    "takes BackendOptions": {"options": sweet_rl.Options()},
    "no agent of code 'questioneer'.*did you mean questioner": {"agent": "questioneer"},
    "has its own instructions": {"agent": Asking(), "agent_prompt": "llm_agent_mini_prompt"},
    "human must be .*or an object with `async def reply`": {"human": Asking()},
    "no human of code 'gpt'": {"human": "gpt"},
    "asks no human": {"world": "lantern", "tasks": None, "human": Telling()},
    "holds no tasks": {"tasks": []},
    "are about a file": {"overwrite": True},
    "There is no world": {"world": "lanterm"},
    "num_tasks must be a whole number, at least 1; got 0": {"num_tasks": 0},
    "num_tasks must be a whole number, at least 1; got '5'": {"limit": "5"},
    "repeats and concurrency must be at least 1": {"repeats": 0},
    "^max_turns must be a whole number, got '5'": {"options": {"max_turns": "5"}},
    "output_path '/' is a folder": {"output_path": "/"},
    "world must be a name.*got <class": {"world": EchoWorld},
    "agent must be .*got None": {"agent": None},
    "agent must be .*got <class .*Asking": {"agent": Asking},
    "There is no scripted agent of code 'exprt'": {"agent": "scripted/exprt"},
    "The agent is behind a server: name it with base_url": {"agent": "openai/m"},
    "The human is behind a server: name it with human_base_url": {"human": "openai/m"},
    "the agent expert is behind none": {"agent": "expert", "base_url": "http://127.0.0.1:1/v1"},
    "the human telling is behind none": {"human": Telling(), "human_base_url": "http://127.0.0.1:1/v1"},
    "A base URL looks like http://host:8000/v1, got 'localhost'": {"agent": "m", "base_url": "localhost"},
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
    "no argument of evaluate 'nun_tasks' .did you mean num_tasks": lambda: sweet_rl.evaluate("code", nun_tasks=5),
    "no agent of code ''": lambda: sweet_rl.play("code", agent=""),
    "no human of code ''": lambda: sweet_rl.play("code", human=""),
    "^device must be auto, cpu": lambda: sweet_rl.credit([EPISODE], "embedded", device="gpu"),
    "base_urls must be an address .*got 5": lambda: OpenAIClient(5),
    "base_urls must be an address .*got \\[\\]": lambda: OpenAIClient([]),
    "A base URL looks like .*got 'localhost:8000'": lambda: OpenAIClient("localhost:8000"),
    "client must be an OpenAIClient: OpenAIClient..http": lambda: OpenAIPolicy("http://127.0.0.1:1/v1", "m"),
    "grade takes a list of trajectories.*got 5": lambda: sweet_rl.grade(5),
    "grade takes a list of trajectories.*load_trajectories": lambda: sweet_rl.grade([{}]),
    "grade takes a list of trajectories.*got Trajectory": lambda: sweet_rl.grade(EPISODE),
    "grade takes a list of trajectories.*got PosixPath": lambda: sweet_rl.grade(Path("x.jsonl")),
    "grader must be a name, or an object with `def grade": lambda: sweet_rl.grade([EPISODE], grader=5),
    "yielded 1.0, and no sweet_rl.Score": lambda: sweet_rl.grade([EPISODE], grader=NoScores()),
    "pairs takes a list of trajectories.*got 'x'.*load_trajectories": lambda: sweet_rl.pairs("x"),
    "has 2 episodes of the task '.*' and 1 of '": lambda: sweet_rl.pairs([EPISODE, EPISODE, OTHER]),
    "Pass overwrite to replace it, or choose another path": lambda: sweet_rl.view([EPISODE], __file__),
    "view takes .*got 5": lambda: sweet_rl.view(5),
    "no file|does not exist|is not there|There is no": lambda: sweet_rl.view("missing.jsonl"),
    "no advantage 'papers' .did you mean paper": lambda: sweet_rl.Critic("embedded", advantage="papers"),
    "compare takes .*got 5": lambda: sweet_rl.compare(5, 6),
    "`act` of the agent mine must return sweet_rl.Generation.*got 'x' \\(str\\)": lambda: said(player("act", "x")),
    "`act` of the agent mine .*got None.*ends without `return`": lambda: said(player("act", None)),
    "`reply` of the human mine must return sweet_rl.UserReply.*None": lambda: said(human=player("reply", None)),
    "The agent <lambda> must return the text of its turn, a str; got None": lambda: said(lambda _: None),
    "The human <lambda> must return .*got 5": lambda: said(human=lambda _: 5),
}  # fmt: skip


@pytest.mark.parametrize(("words", "call"), OTHERS.items(), ids=OTHERS)
@pytest.mark.filterwarnings("error")
def test_the_others_refuse(words, call):
    with pytest.raises(SweetRLError, match=words):
        call()
