"""The one list of commands: their names, their purpose, and the function of each.

A stage is a function in `sweet_rl.commands`: its settings are the flags, its docstring is the help. Nothing
heavy is imported before the flags are known to be good, so that `--help` is quick.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sweet_rl import command_line
from sweet_rl.errors import no_such

COMMANDS = {
    "run": "Run a pipeline of stages from a YAML file; skip what is done, resume where it stopped.",
    "preflight": "Look at what a pipeline needs before it begins: data, servers, disk, GPU memory.",
    "eval": "Evaluate an agent in one command: play the tasks, grade, report; retries, costs, intervals.",
    "compare": "Compare runs task by task: differences with intervals, what only one solves.",
    "simulate_interactions": "Let an agent and a simulated human talk over tasks; write the trajectories.",
    "evaluate": "Grade trajectories of any world by its grader, or by one of your own.",
    "evaluate_code": "Grade functions by hidden tests, in a sandbox; print the table; write preference pairs.",
    "evaluate_games": "Report trajectories of worlds that reward turns; write preference pairs.",
    "evaluate_html": "Grade web pages by their pictures; print the table; write preference pairs.",
    "train_dpo": "Train a critic or a policy on preference pairs, by DPO.",
    "train_sft": "Fine-tune a model on the agent's messages, in dialogues or in single turns.",
    "train_reward_model": "Train a critic with a regression head on preference pairs.",
    "sample_best_of_n": "Sample alternatives for every agent turn of graded trajectories.",
    "rank_best_of_n": "Score sampled alternatives with a critic that knows the hidden solution.",
    "generate_random_pairs_from_ranks": "Draw preference pairs of single turns from scored alternatives.",
    "export_pairs": "Write preference pairs as data sets that TRL and OpenRLHF train on.",
    "export": "Write trajectories as another tool's file (inspect_ai), or such a file as trajectories.",
    "export_credit": "Write dialogues by their sampled tokens, each turn with its credit, for TRL and verl.",
    "picture_pairs": "Show the hidden page's picture in pairs of page dialogues, for a vision critic.",
    "credit": "Score every turn of finished dialogues by a critic, with and without the hidden solution.",
    "run_bc": "Make the policy that online learning begins with: it imitates demonstrations.",
    "run_archer": "Train a policy online: it plays, and learns from what it played.",
    "show_tokens": "Show what training would learn from a file, token by token.",
    "merge_adapters": "Merge a LoRA adapter into the weights of its model.",
    "view": "Look at what runs have left, in a browser: dialogues, candidates, pairs, metrics, reports.",
    "visualize_dialogue_histories": "Browse a trajectory file in a web browser, or export it as one page.",
    "visualize_design_dialogue_histories": "Browse a trajectory file of pages: draw and grade every draft, too.",
    "serve_simulator": "Serve the scripted human behind OpenAI endpoints; latency and faults on demand.",
    "serve_credit": "Serve a critic: dialogues and hidden information in, every turn's advantage out.",
    "serve_env": "Serve a world, with its human, as an OpenEnv environment: reset, step, state.",
    "play": "Play a game in the terminal: see what an agent sees, get its rewards.",
    "generate_tasks": "Write the tasks of a world's list as a ColBench file.",
    "fetch_model": "Put a small pretrained model, SmolLM2-135M-Instruct, into the user's cache.",
    "make_embedded_agent": "Train the embedded agent of the mini worlds from nothing.",
    "demo": "Run the whole pipeline on the embedded defaults: tasks, dialogues, grades, report.",
    "demo_archer": "Learn online on the embedded defaults: ArCHer and its rivals play a game of questions.",
    "demo_reflect": "Reflect-RL from nothing: one world or several, five ways to learn.",
    "runs": "List what made the outputs in a folder, and when, with what, at what cost.",
    "reflect evaluate_gpt": "Measure a model as it is, by ReAct.",
    "reflect supervised_pretrain": "Reflect-RL: fine-tune the policy or the reflection model on texts.",
    "reflect rl_finetune": "Reflect-RL: train the policy online, beside a frozen model that reflects.",
    "reflect evaluate": "Reflect-RL: measure checkpoints by sampled episodes.",
    "reflect plot": "Reflect-RL: draw success, cost and loss of online runs.",
    "reflect ensemble_logs": "Reflect-RL: merge the logs of runs that went on from each other.",
}
"""Name of a stage to its summary; the function of the same name is in `sweet_rl.commands.<name>`.

A name of two words is a stage of a group: `reflect plot` is in `sweet_rl.commands.reflect.plot`. `stages` has those
of worlds, too.
"""

_ELSEWHERE = {
    "train_reward_model": "sweet_rl.commands.train_sft",
    "visualize_dialogue_histories": "sweet_rl.commands.view",
    "visualize_design_dialogue_histories": "sweet_rl.commands.view",
    "run": "sweet_rl.pipelines.run",
    "preflight": "sweet_rl.pipelines.run",
    "export_pairs": "sweet_rl.integrations.export",
    "serve_credit": "sweet_rl.integrations.serve",
    "export": "sweet_rl.integrations.export",
    "export_credit": "sweet_rl.integrations.export",
    "serve_env": "sweet_rl.integrations.serve",
    "demo": "sweet_rl.studies.demos",
    "demo_archer": "sweet_rl.studies.demos",
    "demo_reflect": "sweet_rl.studies.demos",
}
"""Stages in modules of other names: what is declared together, and clients of the other stages."""


def values_of(function: Callable[..., Any], typed: command_line.Typed) -> dict[str, Any]:
    """The flags' values, after a check that all of them apply to this run."""
    values = command_line.values(function, typed)
    command_line.refuse_idle(function, values)
    return values


def stages() -> dict[str, str]:
    """All stages with their summaries: ours, then those that only one world has (`World.stages`)."""
    from sweet_rl.worlds import registry

    return COMMANDS | {name: stage.summary for name, stage in registry.stages().items()}


def load(name: str) -> Callable[..., Any]:
    """Import a stage and return its function."""
    if name in COMMANDS:
        *group, stage = name.split()
        place = f"{_ELSEWHERE.get(name) or '.'.join(['sweet_rl.commands', *group, stage])}:{stage}"
    else:
        from sweet_rl.worlds import registry

        of_worlds = registry.stages()
        if name not in of_worlds:
            raise no_such("stage", name, [*COMMANDS, *of_worlds])
        place = of_worlds[name].place
    module, _, attribute = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function
