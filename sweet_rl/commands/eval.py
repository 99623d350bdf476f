"""A number that can be trusted, in one command: simulate, grade, report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.commands.agent_flags import AgentPrompt, ModelFlags, PlayerFlags
from sweet_rl.commands.humans import ANSWERED, HumanFlags, server_plays
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS, simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Only, Settings, flag
from sweet_rl.flags.shared import (
    BatchSize,
    ContinuingOtherwise,
    LogTo,
    MaxFailed,
    NumTasks,
    OutputDir,
    Quiet,
    Regrade,
    Repeats,
    SampleIds,
    Seeded,
    Tasks,
    WorldName,
)
from sweet_rl.policies import BASE_URL_VAR, engine_and_name
from sweet_rl.worlds import Options, ScriptedFlags, agents_with, first_for, world_of


@dataclass(frozen=True, kw_only=True)
class EvalFlags(
    WorldName,
    Tasks,
    NumTasks,
    SampleIds,
    Repeats,
    Seeded,
    MaxFailed,
    BatchSize,
    OutputDir,
    Regrade,
    ContinuingOtherwise,
    LogTo,
    Quiet,
):
    """What is evaluated."""

    model: str = flag(
        REQUIRED,
        "openai/NAME (a model behind an OpenAI-compatible server), vllm/PATH (starts a vLLM server), a folder or a hub "
        "name (run in process), one of the world's scripted agents, or module:ATTRIBUTE.",
        aliases=("agent_model",),
    )
    retries: int = flag(
        2,
        "how often episodes that failed because a service could not be used are played again.",
        at_least=0,
        shown="all",
    )
    bounds: str = flag(
        "none",
        "scripted agents that play the same tasks, for comparison: none, world (the world's ceiling and floor), or "
        "names with commas between them.",
    )

    def check_together(self) -> None:
        """Whether the folder can be one."""
        super().check_together()
        if self.output_dir and Path(self.output_dir).is_file():
            raise UsageError(f"--output_dir {self.output_dir!r} is a file; name a folder.")


@dataclass(frozen=True, kw_only=True)
class EvaluatedFlags(ModelFlags, ScriptedFlags, AgentPrompt, Settings):
    """The agent."""


def player_flags(flags: EvalFlags, agent: EvaluatedFlags) -> PlayerFlags:
    """The agent as `simulate_interactions` has it."""
    engine, name = engine_and_name(flags.model)
    url = agent.agent_base_url
    if engine == "openai" and url is None:
        url = os.environ.get(BASE_URL_VAR) or None
        if url is None:
            raise UsageError(
                f"--model {flags.model} is behind a server: name it with --agent_base_url, such as "
                f"http://127.0.0.1:8001/v1, or in the environment variable {BASE_URL_VAR}."
            )
    values = vars(agent) | {"agent": engine, "agent_model": name, "agent_base_url": url}
    return PlayerFlags(**values)


def human_flags(human: HumanFlags, world_name: str) -> HumanFlags:
    """The human: where no server is named, the one without a model."""
    simulated = world_of(world_name).answered_by == "human"
    if simulated and human.env_model == "auto" and not human.server_named:
        return replace(human, env_model="scripted")
    return human


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together, as in `simulate_interactions`."""
    chosen = built(EvalFlags, flags)
    player = player_flags(chosen, built(EvaluatedFlags, flags))
    human = human_flags(built(HumanFlags, flags), chosen.world)
    rest = {"reflection_model": None, "reflection_base_url": None}
    facets = dict(simulate_interactions.facets({**flags, **vars(player), **vars(human), **rest}))  # type: ignore[attr-defined]
    world = world_of(chosen.world)
    place = "server" if server_plays(world, human) else "here"
    return facets | {"human": {place}, "talks": {place if world.answered_by == "human" else "here"}}


@recorded(
    "eval",
    reads=("tasks", "model", "tokenizer", "agent_prompt_path", "env_model", "user_prompt_path", "place"),
    prices=True,
)
@stage(
    defaults={"world": first_for("dialogue"), "agent_api": "chat", "output_dir": ""},
    helps={
        "agent_api": "how the server of openai/NAME is asked: chat, or completions, where it offers them and prompts must be exact.",
        "agent_base_url": f"base URL(s) of the server of openai/NAME; default what {BASE_URL_VAR} says.",
        "env_model": "who plays the human, or answers in question games: scripted (without a model: the default, unless a server is named), auto (the first model that the named server offers), or the server's name for a model.",
        "output_dir": "folder of episodes, grades and report; default evals/WORLD-TASKS-AGENT-HUMAN-SETTINGS, with a digest of the settings. The same command resumes it.",
        "overwrite": "throw away what the folder holds of earlier episodes.",
        "regrade": "grade episodes again that have their grades; nothing is played that is there.",
        "to_continue": "of no effect: the same command resumes.",
        "tasks": "one of the world's lists, or a file; default: what the world measures on.",
        "seed": "every episode's seed is derived from it.",
    },
    narrow={
        "agent_base_url": {"aliases": ("base_url",)},
        "to_continue": {"shown": "never"},
        "max_failed": {"shown": "all"},
    },
    only=ANSWERED
    | {
        "unsafe_no_sandbox": None,
        "agent_base_url": Only("agent", ("openai",), "--model openai/NAME"),
        "skill": Only("agent_model", lambda: agents_with("skill"), "scripted agents that take it"),
        "num_questions": Only(
            "agent_model", lambda: agents_with("num_questions"), "scripted agents that take it"
        ),
    },
    facets=_facets,
    options=WORLD_OPTIONS,
)
def eval(flags: EvalFlags, agent: EvaluatedFlags, human: HumanFlags, options: Options, /) -> None:
    """Evaluate an agent: play the tasks, grade, report; one command, which resumes itself.

    Episodes that failed because a service could not be used are played again, and those that still failed are in no number.
    The report has success and what the world gives, pass@k and pass^k over repeats, with standard errors clustered
    by task; why episodes are no success; turns, questions, tokens and money of agent and human apart; who the human
    and the grader were. It is printed, and lies as report.json and as a page to send, report.html, beside
    episodes.jsonl, which `sweet-rl compare` and the viewers take.

    The smallest run needs no model and no server:
    sweet-rl eval --model expert --world code --tasks mini:test --num_tasks 50
    A model behind a server, asked four times for each task:
    sweet-rl eval --model openai/gpt-4o-mini --base_url https://host/v1 --tasks tasks.jsonl --repeats 4 --prices prices.toml
    """
    from sweet_rl.commands import evaluating

    tracking.logs_to(flags.destination())
    evaluating.run(flags, player_flags(flags, agent), human_flags(human, flags.world), options)
