"""Stage 1 of the pipeline: an agent and a simulated human talk over tasks.

Published behaviour: docs/published/sweet_rl.md#overview.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.errors import UsageError


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together."""
    from sweet_rl.commands.agent_flags import RECAP, engine_of
    from sweet_rl.commands.humans import server_plays
    from sweet_rl.worlds import world_of

    world, wanted = flags["task_type"], flags["reflection_model"]
    played = world_of(world)
    agent = next(iter(played.agents), "auto") if flags["agent_model"] == "auto" else flags["agent_model"]
    python = flags["vllm_python"]
    engine = engine_of(
        flags["agent"], agent, task_type=world, base_url=flags["agent_base_url"], vllm_python=python
    )
    engines = {engine}
    if wanted not in {None, RECAP}:
        where = flags["reflection_base_url"]
        engines.add(engine_of("auto", wanted, task_type=world, base_url=where, vllm_python=python))
    named = any(flags[flag] is not None for flag in ("hostname", "port", "env_base_url"))
    server = server_plays(world, flags["env_model"], server_named=named)
    return {
        "task_type": {world},
        "answered_by": {played.answered_by},
        "agent_model": {agent},
        "agent": {engine},
        "engine": engines,
        "reflection": {"none" if wanted is None else RECAP if wanted == RECAP else "model"},
        "human": {"server" if server else "here"},
        "asked": {"server"} if server or not engines.isdisjoint({"openai", "vllm"}) else {"nobody"},
    }


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
        "game_place",
    ),
    prices=True,
)
@belonging(_facets)
def simulate_interactions(
    input_path: str | None = None,
    output_path: str | None = None,
    *,
    agent_model: str = "auto",
    env_model: str = "auto",
    num_tasks: int = 1000,
    best_of_n: int = 1,
    max_steps: int | None = None,
    temperature: float = 1.0,
    batch_size: int = 1000,
    to_continue: bool = False,
    overwrite: bool = False,
    force_continue: bool = False,
    hostname: str | None = None,
    port: int | None = None,
    env_base_url: str | None = None,
    env_api_key_var: str | None = None,
    agent: str = "auto",
    agent_base_url: str | None = None,
    agent_api: str = "completions",
    agent_api_key_var: str | None = None,
    tokenizer: str | None = None,
    max_tokens: int = 1024,
    device: str = "auto",
    dtype: str = "auto",
    max_batch: int = 64,
    tensor_parallel_size: int = 1,
    data_parallel_size: int = 1,
    vllm_python: str | None = None,
    vllm_args: str = "",
    user_prompt_path: str | None = None,
    agent_prompt_path: str | None = None,
    parser: str = "published",
    user_failure: str = "stop",
    retry: str = "failed",
    max_failed: float = 0.02,
    request_timeout_s: float = 120.0,
    request_attempts: int = 4,
    request_patience_s: float = 300.0,
    num_questions: int = 3,
    seed: int = 0,
    task_type: str = "code",
    game_place: str | None = None,
    skill: float | None = None,
    reflection_model: str | None = None,
    reflection_base_url: str | None = None,
    reflection_api: str | None = None,
    reflection_api_key_var: str | None = None,
    reflection_prompt_path: str | None = None,
    reflection_tokens: int = 100,
    reflect_prob: float = 1.0,
    with_prompt: bool = False,
    with_history: bool = False,
    leaveout_prob: float = 0.0,
    shuffle_action: bool = False,
    image_url: str = "png",
    compat: str = "fixed",
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
    train: bool = False,
    temp_path: str | None = None,
    unsafe_no_sandbox: bool = False,
    quiet: bool = False,
) -> None:
    """Let an agent and a simulated human talk over tasks, and write the trajectories.

    Every finished episode is on disk before its place goes to the next one, so a run can be stopped at any
    moment (Ctrl-C, kill, power cut) and finished with --to_continue. Once complete, the file is in the
    published order: row j*num_tasks+i is repeat j of task i.

    The smallest run needs no model and no server:
    simulate_interactions.py --input_path mini:test --output_path out.jsonl --env_model scripted --num_tasks 20
    Likewise for web pages (Frontend Design), with a browser; drafts become pictures beside the output file:
    simulate_interactions.py --task_type html --input_path mini-web:test --output_path pages.jsonl --env_model scripted --num_tasks 20

    Args:
        input_path: tasks: twenty-questions, guess-my-city, webshop, lantern or detective (each with :train or :test behind it), taxi:full, taxi:pickup, taxi:dropoff or taxi:none (likewise), auto-explore:train or auto-explore:test (embedded) or auto-explore:PATH (a .json file of task records), alfworld:train or alfworld:test (embedded) or alfworld-data:train (of $ALFWORLD_DATA) for games; a ColBench .jsonl file, mini:test or mini:train (embedded; mini-web:test or mini-web:train for pages), or facebook/collaborative_agent_bench[:train] from the hub.
        output_path: the .jsonl file that trajectories are appended to.
        agent_model: in games asker, careful, buyer, walkthrough, planner, careless, wanderer or random; oracle, constant, questioner (the default) or expert (scripted agents: ceiling, floor, template questions, noisy teacher of the mini worlds), for html target, blank, generic or improver (the default; ceiling, two floors, one that applies what the human says), or a model: a folder, a hub name, or the name under which a server offers it.
        env_model: in question games who answers: the embedded oracle, unless a server is named; else who plays the human: auto (the first model that the server offers), the server's name for a model (for html one with eyes), or scripted: no model, in process unless a server is named (for html always in process).
        num_tasks: take the first so many tasks.
        best_of_n: repeats of every task.
        max_steps: agent turns at most, and in code and html the last one counts as the answer; default 10 (20 in question games, 50 in adventures, 15 in dangerous_taxi, auto_explore and alfworld).
        temperature: sampling temperature of the agent; 0 is greedy.
        batch_size: episodes in flight at once; for html at most 100.
        to_continue: finish the run that output_path already holds.
        overwrite: throw away what output_path holds.
        force_continue: continue even though the file was made from other tasks or with other settings.
        hostname: host of the OpenAI-compatible server that plays the human; 127.0.0.1 when only the port is given.
        port: its port; 8000 when only the host is given, or nothing.
        env_base_url: its base URL instead (like https://host/v1); several, separated by commas, share the load.
        env_api_key_var: environment variable that holds its key, which must be set; default OPENAI_API_KEY, if that is set.
        agent: what runs agent_model: auto, scripted, transformers (in process), vllm (starts its own server), or openai (any server).
        agent_base_url: base URL(s) of the server that runs the agent.
        agent_api: completions (the exact prompt string is sent and recorded) or chat.
        agent_api_key_var: environment variable that holds that server's key, as env_api_key_var.
        tokenizer: folder or name of the tokenizer whose chat template makes the prompts; default agent_model, and for --agent openai a plain format of our own.
        max_tokens: tokens of one agent turn at most.
        device: for transformers: auto, cpu, cuda, cuda:1, ...
        dtype: for transformers: auto, float32, bfloat16, float16.
        max_batch: for transformers: prompts in one forward pass at most.
        tensor_parallel_size: for vllm: GPUs that share one copy of the model.
        data_parallel_size: for vllm: copies of the model.
        vllm_python: for vllm: Python interpreter of the environment that vLLM is installed in.
        vllm_args: for vllm: further arguments of its server, in one string: --vllm_args="--max-model-len 8192".
        user_prompt_path: prompt file of the human, with {problem_description}, {hidden_information} and {dialogue_history} (for html none is needed, and the second not allowed); default the packaged one.
        agent_prompt_path: system prompt file of the agent; default the packaged one.
        parser: how the agent's text is read: published (compares with released data) or strict (an announced answer always counts).
        user_failure: when the human cannot be asked: stop (the episode has failed: it has no score and can be played again) or reply (the published "No response.", recorded).
        retry: with to_continue: failed (play episodes that failed again) or none.
        max_failed: share of the episodes that may fail; with more, the exit status is 1. The file stays and can be continued.
        request_timeout_s: seconds that one request may take, once it is sent.
        request_attempts: how often a request is tried when it fails in a way that can pass.
        request_patience_s: seconds that a request which the server turns away (429, or 503 with Retry-After) waits in all; this uses up no attempts. How many are sent at once is found out by itself.
        num_questions: questions of the questioner.
        seed: every episode's seed is derived from it.
        task_type: code (Backend Programming), html (Frontend Design), or a game: twenty_questions, guess_my_city, webshop, lantern, detective, dangerous_taxi, auto_explore, alfworld.
        game_place: for detective the game file (default: what SWEET_RL_DETECTIVE names), for webshop the address of a shop's server (default: the embedded shop), for auto_explore the folder of repositories (default: embedded ones).
        skill: of the asker: how often it asks one of the best questions, 0 to 1 (default 1); else any, or a wild guess. Of the careless driver: how often it goes the shortest way (default 0.1); of the careless one in households, how often it does what the planner says (default 0.3).
        reflection_model: a second model that analyses where things stand before every turn of the agent, whichever world it plays: a folder, a hub name, the name under which reflection_base_url offers it, or recap (no model, for trials).
        reflection_base_url: base URL(s) of the server that runs it.
        reflection_api: completions or chat, as that server is spoken to; default agent_api.
        reflection_api_key_var: environment variable that holds that server's key; default agent_api_key_var.
        reflection_prompt_path: its system prompt file; default the packaged one.
        reflection_tokens: tokens of one analysis at most.
        reflect_prob: share of turns that it is asked in.
        with_prompt: for dangerous_taxi: the rules stand in every observation.
        with_history: for dangerous_taxi: every state so far stands in every observation.
        leaveout_prob: for auto_explore: with which probability each file or folder that leads to no answer is left out.
        shuffle_action: for auto_explore and alfworld: labels of commands are drawn anew for every step.
        image_url: for html: how pictures are written into requests: png (right), vllm or jpeg (as published, for vLLM and for OpenAI).
        compat: for html: fixed, or published: a draft that cannot be rendered takes away an earlier answer. For games: the published rules with their oddities.
        browser: for html: what renders pages: chromium or firefox.
        network: for html: none (pages get what the package ships) or allow (the published behaviour: pictures depend on connectivity).
        allow_scripts: for html: run the scripts of pages.
        viewport: for html: width and height of the window that pages are laid out for.
        page_timeout_s: for html: seconds that one page may take.
        browsers: for html: browsers at once.
        render_cache: for html: folder that keeps rendered pages for the next run, default (the user's cache) or none.
        train: accepted for the published command line; has no effect there either.
        temp_path: for html: folder of the pictures; default one beside output_path, named after it.
        unsafe_no_sandbox: for agent_model constant: run the tasks' reference functions without protection.
        quiet: no progress bar.
    """
    del train
    from sweet_rl.worlds import options_of, world_of

    world = world_of(task_type)
    if max_steps is None:
        max_steps = world.max_turns
    if input_path is None or output_path is None:
        raise UsageError(
            "--input_path (for example mini:test, or a ColBench .jsonl file) and --output_path are needed."
        )
    for flag, value in {
        "num_tasks": num_tasks,
        "best_of_n": best_of_n,
        "max_steps": max_steps,
        "batch_size": batch_size,
        "max_tokens": max_tokens,
        "request_attempts": request_attempts,
    }.items():
        if value < 1:
            raise UsageError(f"--{flag} must be at least 1, got {value}.")
    if skill is not None and not 0 <= skill <= 1:
        raise UsageError(f"--skill must be from 0 to 1, got {skill}.")
    if temperature < 0:
        raise UsageError(f"--temperature must not be negative, got {temperature}.")

    from sweet_rl.commands import simulation
    from sweet_rl.commands.agent_flags import AgentFlags, ReflectionFlags
    from sweet_rl.commands.humans import UserFlags
    from sweet_rl.commands.rendering import RenderFlags
    from sweet_rl.commands.worlds import WorldFlags

    options = {
        "max_turns": max_steps,
        "parser": parser,
        "user_failure": user_failure,
        "compat": compat,
        "place": game_place,
        "with_prompt": with_prompt,
        "with_history": with_history,
        "leaveout_prob": leaveout_prob,
        "shuffle_action": shuffle_action,
    }
    reflection = None
    if reflection_model is not None:
        reflection = ReflectionFlags(
            reflection_model,
            base_url=reflection_base_url,
            api=reflection_api,
            api_key_var=reflection_api_key_var,
            prompt_path=reflection_prompt_path,
            max_tokens=reflection_tokens,
            share=reflect_prob,
        )
        reflection.check()
    simulation.run(
        simulation.SimulationFlags(
            input_path=input_path,
            output_path=output_path,
            num_tasks=num_tasks,
            best_of_n=best_of_n,
            concurrency=batch_size,
            to_continue=to_continue,
            overwrite=overwrite,
            force_continue=force_continue,
            seed=seed,
            quiet=quiet,
            retry=retry,
            max_failed=max_failed,
        ),
        simulation.Parts(
            WorldFlags(
                task_type=task_type,
                values=options,
                temp_path=temp_path,
                rendering=RenderFlags(
                    browser, network, allow_scripts, viewport, page_timeout_s, browsers, render_cache
                ),
            ),
            AgentFlags(
                engine=agent,
                model=next(iter(world.agents), "auto") if agent_model == "auto" else agent_model,
                task_type=task_type,
                base_url=agent_base_url,
                api=agent_api,
                api_key_var=agent_api_key_var,
                tokenizer=tokenizer,
                prompt_path=agent_prompt_path,
                temperature=temperature,
                max_tokens=max_tokens,
                device=device,
                dtype=dtype,
                max_batch=max_batch,
                tensor_parallel_size=tensor_parallel_size,
                data_parallel_size=data_parallel_size,
                vllm_python=vllm_python,
                vllm_args=vllm_args,
                num_questions=num_questions,
                max_steps=max_steps,
                seed=seed,
                request_timeout_s=request_timeout_s,
                request_attempts=request_attempts,
                request_patience_s=request_patience_s,
                unsafe_no_sandbox=unsafe_no_sandbox,
                skill=skill,
                options=options_of(world, options),
                reflection=reflection,
            ),
            UserFlags(
                model=env_model,
                hostname=hostname,
                port=port,
                base_url=env_base_url,
                api_key_var=env_api_key_var,
                prompt_path=user_prompt_path,
                request_timeout_s=request_timeout_s,
                request_attempts=request_attempts,
                request_patience_s=request_patience_s,
                task_type=task_type,
                image_url=image_url,
            ),
        ),
    )
