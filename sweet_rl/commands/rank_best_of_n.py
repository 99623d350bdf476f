"""Stage 5 of the pipeline: the critic's scores for the sampled candidates.

Published behaviour: docs/published/sweet_rl.md#ranking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.errors import UsageError


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What scores, and where."""
    asked = {"server"} if flags["engine"] in {"openai", "vllm"} else {"nobody"}
    return {"engine": {flags["engine"]}, "asked": asked, "fan_out": {flags["fan_out"]}}


@recorded("rank_best_of_n", reads=("input_path", "model_id", "reference_model", "tokenizer"), prices=True)
@belonging(_facets)
def rank_best_of_n(
    input_path: str,
    output_path: str | None = None,
    model_id: str | None = None,
    *,
    no_use_ground_truth: bool = False,
    use_sum: bool = False,
    save_steps: int = 100,
    advantage: str = "released",
    reference_model: str | None = None,
    to_continue: bool = False,
    overwrite: bool = False,
    force_continue: bool = False,
    engine: str = "transformers",
    base_url: str | None = None,
    api_key_var: str | None = None,
    tokenizer: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    max_batch_tokens: int = 32768,
    tensor_parallel_size: int = 1,
    data_parallel_size: int = 1,
    vllm_python: str | None = None,
    vllm_args: str = "",
    request_timeout_s: float = 600.0,
    request_attempts: int = 4,
    fan_out: str = "local",
    ray_address: str = "auto",
    ray_workers: int | None = None,
    ray_gpus_per_worker: float | None = None,
    compat: str = "fixed",
    quiet: bool = False,
) -> None:
    """Score sampled candidates with a critic that knows the hidden solution; candidates keep their order.

    A score is the critic's mean log-probability of the candidate's own tokens (the end token included where
    one was generated) minus the reference's. A critic with a regression head gives its value instead.

    The smallest run: rank_best_of_n.py sampled.jsonl ranked.jsonl path/to/critic

    Args:
        input_path: sampled turns of sample_best_of_n.py, or a published file.
        output_path: the .jsonl file that ranked turns are appended to.
        model_id: the critic: a checkpoint folder, a hub name, or the name under which a server offers it.
        no_use_ground_truth: score without the hidden solution.
        use_sum: sums of log-probabilities instead of means.
        save_steps: rows that are scored and saved together; a killed run loses at most these.
        advantage: released (the reference is the sampler, without the solution) or paper (equation 3: the reference knows the solution, too; needs --reference_model).
        reference_model: compute the reference's log-probabilities with this model, the one that sampled; needed where the file has none.
        to_continue: finish the run that output_path already holds.
        overwrite: throw away what output_path holds.
        force_continue: continue even though the file was made from other data or with other settings.
        engine: what runs the models: transformers (in process), vllm (starts its own server), or openai (a vLLM server that runs).
        base_url: for openai: base URL(s) of the server.
        api_key_var: for openai: environment variable that holds its key, which must be set; default OPENAI_API_KEY, if that is set.
        tokenizer: folder or name of the critic's tokenizer; default model_id.
        device: for transformers: auto, cpu, cuda, cuda:1, ...
        dtype: for transformers: auto, float32, bfloat16, float16.
        max_batch_tokens: for transformers: tokens in one forward pass at most.
        tensor_parallel_size: for vllm: GPUs that share one copy of a model.
        data_parallel_size: for vllm: copies of a model.
        vllm_python: for vllm: Python interpreter of the environment that vLLM is installed in.
        vllm_args: for vllm: further arguments of its server, in one string.
        request_timeout_s: seconds that one request may take.
        request_attempts: how often a request is tried when it fails in a way that can pass.
        fan_out: local (this process), or ray: copies of the models on the machines of a Ray cluster.
        ray_address: auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this run), or HOST:PORT of its head.
        ray_workers: copies; default as many as the GPUs allow, without GPUs one on each machine.
        ray_gpus_per_worker: GPUs of one copy, also a fraction; default 1 where the cluster has any.
        compat: fixed, or published: the header of the turn is scored, the end token is not.
        quiet: no progress bar.
    """
    if output_path is None or model_id is None:
        raise UsageError("--output_path (a .jsonl file) and --model_id (the critic) are needed.")
    for flag, value, options in (
        ("advantage", advantage, ("released", "paper")),
        ("engine", engine, ("transformers", "vllm", "openai")),
        ("compat", compat, ("fixed", "published")),
    ):
        if value not in options:
            raise UsageError(f"--{flag} must be one of {', '.join(options)}, got {value!r}.")
    if save_steps < 1:
        raise UsageError(f"--save_steps must be at least 1, got {save_steps}.")
    if advantage == "paper" and reference_model is None:
        raise UsageError(
            "--advantage paper needs --reference_model: the model that sampled, whose log-probabilities are "
            "computed again with the hidden solution before the prompt."
        )
    if advantage == "paper" and no_use_ground_truth:
        raise UsageError("--advantage paper and --no_use_ground_truth exclude each other.")
    if compat == "published" and reference_model is not None:
        raise UsageError("--compat published uses the stored log-probabilities; leave --reference_model out.")
    if engine == "openai" and base_url is None:
        raise UsageError("--engine openai needs --base_url, for example http://127.0.0.1:8001/v1.")

    from sweet_rl.commands import ranking
    from sweet_rl.commands.fan_out import cluster_of
    from sweet_rl.commands.scorers import ScorerFlags

    cluster = cluster_of(fan_out, ray_address, ray_workers, ray_gpus_per_worker)

    ranking.run(
        ranking.RankingFlags(
            input_path=input_path,
            output_path=output_path,
            model_id=model_id,
            reference_model=reference_model,
            tokenizer=tokenizer,
            use_ground_truth=not no_use_ground_truth,
            use_sum=use_sum,
            save_steps=save_steps,
            paper=advantage == "paper",
            published=compat == "published",
            to_continue=to_continue,
            overwrite=overwrite,
            force_continue=force_continue,
            quiet=quiet,
            cluster=cluster,
        ),
        ScorerFlags(
            engine=engine,
            base_url=base_url,
            api_key_var=api_key_var,
            device=device,
            dtype=dtype,
            max_batch_tokens=max_batch_tokens,
            tensor_parallel_size=tensor_parallel_size,
            data_parallel_size=data_parallel_size,
            vllm_python=vllm_python,
            vllm_args=vllm_args,
            request_timeout_s=request_timeout_s,
            request_attempts=request_attempts,
        ),
    )
