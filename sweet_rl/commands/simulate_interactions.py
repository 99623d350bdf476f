"""Stage 1 of the pipeline: an agent and a simulated human talk over tasks.

Published behaviour: docs/published/sweet_rl.md#overview.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.parse import Options as Chosen
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.commands.agent_flags import (
    RECAP,
    Player,
    PlayerFlags,
    ReflectionFlags,
    TestTimeCriticFlags,
    engine_of,
)
from sweet_rl.commands.humans import ANSWERED, Human, HumanFlags, server_plays
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag
from sweet_rl.flags.shared import (
    BatchSize,
    ContinuingOtherwise,
    InputPath,
    LogTo,
    MaxFailed,
    NumTasks,
    OutputPath,
    Quiet,
    Repeats,
    SampleIds,
    Seeded,
    WorldName,
)
from sweet_rl.worlds import Options, agents_with, first_for, names, options_by_name, world_of

WORLD_OPTIONS = Chosen("world", options_by_name, names)
"""The flags of the world that is named."""

TAKEN = {
    name: Only("agent_model", partial(agents_with, name))
    for name in ("skill", "num_questions", "unsafe_no_sandbox")
}
"""Flags of scripted agents belong to those that take them."""


@dataclass(frozen=True, kw_only=True)
class SimulationFlags(
    InputPath,
    OutputPath,
    WorldName,
    NumTasks,
    SampleIds,
    Repeats,
    BatchSize,
    ContinuingOtherwise,
    MaxFailed,
    Seeded,
    LogTo,
    Quiet,
):
    """Inputs and outputs."""

    retry: Literal["failed", "none"] = flag(
        "failed", "with to_continue: failed (play episodes that failed again) or none.", shown="all"
    )
    train: bool = flag(
        False, "accepted for the published command line; has no effect there either.", shown="never"
    )

    def check_together(self) -> None:
        """Whether there is something that may be tried again."""
        super().check_together()
        if self.retry == "none" and not self.to_continue:
            raise UsageError(
                "--retry none selects what --to_continue leaves unchanged; pass --to_continue as well."
            )


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together."""
    world, wanted = world_of(flags["world"]), flags["reflection_model"]
    agent = _named(built(PlayerFlags, flags), world.agents)
    engine = engine_of(agent, world)
    engines = {engine}
    if wanted not in {None, RECAP}:
        reflects = replace(
            agent, agent="auto", agent_model=wanted, agent_base_url=flags["reflection_base_url"]
        )
        engines.add(engine_of(reflects, world))
    server = server_plays(world, built(HumanFlags, flags))
    return {
        "answered_by": {world.answered_by},
        "agent_model": {agent.agent_model},
        "agent": {engine},
        "engine": engines,
        "reflection": {"none" if wanted is None else RECAP if wanted == RECAP else "model"},
        "human": {"server" if server else "here"},
        "talks": {"server" if server and world.answered_by == "human" else "here"},
        "asked": {"server"} if server or not engines.isdisjoint({"openai", "vllm"}) else {"nobody"},
    }


def _named(agent: PlayerFlags, agents: tuple[str, ...]) -> PlayerFlags:
    """The flags with the agent's name: the world's first one for auto."""
    return replace(agent, agent_model=agents[0]) if agent.agent_model == "auto" and agents else agent


@recorded(
    "simulate_interactions",
    reads=(
        "input_path",
        "agent_model",
        "tokenizer",
        "agent_prompt_path",
        "env_model",
        "user_prompt_path",
        "reflection_model",
        "reflection_prompt_path",
        "critic",
        "place",
    ),
    prices=True,
)
@stage(
    "input_path",
    "output_path",
    defaults={"world": first_for("dialogue"), "agent_model": "auto", "num_tasks": 1000},
    helps={
        "input_path": "tasks: a list of the world's own (such as mini:test; an unknown one is answered with all that there are), a ColBench .jsonl file, or facebook/collaborative_agent_bench[:train] from the hub.",
        "output_path": "the .jsonl file that trajectories are appended to.",
        "agent_model": "one of the world's scripted agents (auto: its first), or a model: a folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "agent": "what runs agent_model: auto, scripted, transformers (in process), vllm (starts its own server), or openai (any server).",
        "tokenizer": "folder or name of the tokenizer whose chat template makes the prompts; default agent_model, and for --agent openai a plain format of our own.",
        "max_tokens": "tokens of one agent turn at most.",
        "hostname": "host of the OpenAI-compatible server that plays the human; 127.0.0.1 when only the port is given.",
        "port": "its port; 8000 when only the host is given, or nothing.",
        "batch_size": "episodes in flight at once; for pages at most 100.",
        "overwrite": "throw away what output_path holds.",
        "seed": "every episode's seed is derived from it.",
    },
    only=ANSWERED | TAKEN,
    facets=_facets,
    options=WORLD_OPTIONS,
)
def simulate_interactions(
    flags: SimulationFlags,
    agent: PlayerFlags,
    human: HumanFlags,
    reflection: ReflectionFlags,
    critic: TestTimeCriticFlags,
    options: Options,
    /,
) -> None:
    """Let an agent and a simulated human talk over tasks, and write the trajectories.

    Every finished episode is on disk before its place goes to the next one, so a run can be stopped at any
    moment (Ctrl-C, kill, power cut) and finished with --to_continue. Once complete, the file is in the
    published order: row j*num_tasks+i is repeat j of task i.

    The smallest run needs no model and no server:
    sweet-rl simulate_interactions --input_path mini:test --output_path out.jsonl --env_model scripted --num_tasks 20
    Likewise for web pages, with a browser; drafts become pictures beside the output file:
    sweet-rl simulate_interactions --world html --input_path mini-web:test --output_path pages.jsonl --env_model scripted --num_tasks 20
    """
    from sweet_rl.commands import simulation

    tracking.logs_to(flags.destination())
    world = world_of(flags.world)
    player = Player(
        flags=_named(agent, world.agents),
        world=world,
        options=options,
        scripted=agent,
        prompt_path=agent.agent_prompt_path,
        seed=flags.seed,
        reflection=reflection,
        critic=critic,
    )
    parts = simulation.Parts(world, options, player, Human(human, world, options))
    tasks = simulation.tasks_of(flags.input_path, flags.num_tasks, flags.sample_ids, world)
    simulation.run(flags, parts, tasks)
