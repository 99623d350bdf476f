"""Stage 4 of the pipeline: alternatives for every agent turn of the offline data.

Published behaviour: docs/published/sweet_rl.md#sampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.errors import UsageError


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What samples, and where."""
    from sweet_rl.commands.agent_flags import engine_of

    engine = engine_of(
        flags["agent"],
        flags["agent_model"] or "",
        task_type="code",
        base_url=flags["agent_base_url"],
        vllm_python=flags["vllm_python"],
    )
    asked = {"server"} if engine in {"openai", "vllm"} else {"nobody"}
    return {"agent": {engine}, "engine": {engine}, "asked": asked, "fan_out": {flags["fan_out"]}}


@recorded("sample_best_of_n", reads=("input_path", "agent_model", "tokenizer"), prices=True)
@belonging(_facets)
def sample_best_of_n(
    input_path: str,
    output_path: str | None = None,
    agent_model: str | None = None,
    *,
    temperature: float = 1.0,
    best_of_n: int = 16,
    data_fraction: float = 1.0,
    shuffle: bool = False,
    batch_size: int = 256,
    to_continue: bool = False,
    overwrite: bool = False,
    force_continue: bool = False,
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
    request_timeout_s: float = 600.0,
    request_attempts: int = 4,
    seed: int = 0,
    fan_out: str = "local",
    ray_address: str = "auto",
    ray_workers: int | None = None,
    ray_gpus_per_worker: float | None = None,
    compat: str = "fixed",
    quiet: bool = False,
) -> None:
    """Sample alternatives for every agent turn of graded trajectories, without the hidden solution.

    One row for each turn: what the model was given, the candidates, their token ids and the sampler's
    log-probabilities. A finished row is on disk before the next one takes its place, so a run can be stopped
    at any moment and finished with --to_continue. Once complete, rows stand in the order of the trajectories.

    The smallest run: sample_best_of_n.py trajectories.jsonl sampled.jsonl path/to/model

    Args:
        input_path: trajectories with rewards: evaluate_code.py writes them into the file.
        output_path: the .jsonl file that sampled turns are appended to.
        agent_model: the model that samples: a folder, a hub name, or the name under which a server offers it.
        temperature: sampling temperature; 0 is greedy.
        best_of_n: candidates for each turn.
        data_fraction: use the first so large a part of the trajectories; at least one.
        shuffle: use the trajectories of randomly chosen tasks (by --seed) instead of the first ones.
        batch_size: turns in flight at once.
        to_continue: finish the run that output_path already holds.
        overwrite: throw away what output_path holds.
        force_continue: continue even though the file was made from other data or with other settings.
        agent: what runs agent_model: auto, transformers (in process), vllm (starts its own server), or openai (any server).
        agent_base_url: base URL(s) of the server that runs the agent.
        agent_api: completions (candidates continue the recorded prompt) or chat (for trajectories that were made with it).
        agent_api_key_var: environment variable that holds that server's key, which must be set; default OPENAI_API_KEY, if that is set.
        tokenizer: folder or name of the tokenizer; default agent_model, and for --agent openai none.
        max_tokens: tokens of one candidate at most.
        device: for transformers: auto, cpu, cuda, cuda:1, ...
        dtype: for transformers: auto, float32, bfloat16, float16.
        max_batch: for transformers: candidates in one forward pass at most.
        tensor_parallel_size: for vllm: GPUs that share one copy of the model.
        data_parallel_size: for vllm: copies of the model.
        vllm_python: for vllm: Python interpreter of the environment that vLLM is installed in.
        vllm_args: for vllm: further arguments of its server, in one string.
        request_timeout_s: seconds that one request may take.
        request_attempts: how often a request is tried when it fails in a way that can pass.
        seed: every turn's seed is derived from it and from the turn's identity.
        fan_out: local (this process), or ray: copies of the model on the machines of a Ray cluster.
        ray_address: auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this run), or HOST:PORT of its head.
        ray_workers: copies; default as many as the GPUs allow, without GPUs one on each machine.
        ray_gpus_per_worker: GPUs of one copy, also a fraction; default 1 where the cluster has any.
        compat: fixed, or published: a fraction of less than one trajectory is an error.
        quiet: no progress bar.
    """
    if output_path is None or agent_model is None:
        raise UsageError("--output_path (a .jsonl file) and --agent_model (a folder or a name) are needed.")
    for flag, value in {"best_of_n": best_of_n, "batch_size": batch_size, "max_tokens": max_tokens}.items():
        if value < 1:
            raise UsageError(f"--{flag} must be at least 1, got {value}.")
    if temperature < 0:
        raise UsageError(f"--temperature must not be negative, got {temperature}.")
    if compat not in {"fixed", "published"}:
        raise UsageError(f"--compat must be fixed or published, got {compat!r}.")

    from sweet_rl.commands import sampling
    from sweet_rl.commands.agent_flags import AgentFlags
    from sweet_rl.commands.fan_out import cluster_of

    cluster = cluster_of(fan_out, ray_address, ray_workers, ray_gpus_per_worker)

    sampling.run(
        sampling.SamplingFlags(
            input_path=input_path,
            output_path=output_path,
            best_of_n=best_of_n,
            data_fraction=data_fraction,
            shuffle=shuffle,
            concurrency=batch_size,
            to_continue=to_continue,
            overwrite=overwrite,
            force_continue=force_continue,
            published=compat == "published",
            quiet=quiet,
            cluster=cluster,
        ),
        AgentFlags(
            engine=agent,
            model=agent_model,
            base_url=agent_base_url,
            api=agent_api,
            api_key_var=agent_api_key_var,
            tokenizer=tokenizer,
            prompt_path=None,
            temperature=temperature,
            max_tokens=max_tokens,
            device=device,
            dtype=dtype,
            max_batch=max_batch,
            tensor_parallel_size=tensor_parallel_size,
            data_parallel_size=data_parallel_size,
            vllm_python=vllm_python,
            vllm_args=vllm_args,
            num_questions=0,
            max_steps=1,
            seed=seed,
            request_timeout_s=request_timeout_s,
            request_attempts=request_attempts,
            unsafe_no_sandbox=False,
        ),
    )
