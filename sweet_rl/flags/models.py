"""Flags about models, the servers that they are behind, and the texts that they learn from, each declared once."""

from __future__ import annotations

from typing import Final, Literal

from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Only, Settings, flag, group

IN_PROCESS: Final = Only("engine", ("transformers",), "a model run by transformers")
OWN_VLLM: Final = Only("engine", ("vllm",), "a model run by vllm")
SERVED: Final = Only("engine", ("openai",), "a model run by openai")
A_MODEL: Final = Only(
    "engine", ("transformers", "vllm", "openai"), "a model run by transformers or vllm or openai"
)
ASKED: Final = Only("asked", ("server",), "models behind a server")


@group("Requests to servers")
class ServerPlace(Settings):
    hostname: str | None = flag(
        None, "host of the OpenAI-compatible server; 127.0.0.1 if only --port is given."
    )
    port: int | None = flag(
        None, "port of that server; 8000 if only --hostname is given.", at_least=0, at_most=65535
    )


@group("Requests to servers")
class KeyVar(Settings):
    api_key_var: str | None = flag(
        None,
        "environment variable with the server's key; it must be set. Default OPENAI_API_KEY, if that is set.",
        shown="all",
    )


@group("Requests to servers")
class BaseUrl(KeyVar):
    base_url: str | None = flag(
        None, "base URL of the server, like https://host/v1; several, separated by commas, share the load."
    )


@group("Requests to servers")
class Requests(Settings):
    request_timeout_s: float = flag(
        120.0, "time limit for one request, in seconds, once it is sent.", above=0, shown="all", only=ASKED
    )
    request_attempts: int = flag(
        4, "attempts for a request that fails with a temporary error.", at_least=1, shown="all", only=ASKED
    )
    server_wait_s: float = flag(
        60.0,
        "seconds to wait for a server that is still starting (it refuses connections or answers 503).",
        at_least=0,
        shown="all",
        only=ASKED,
    )
    request_patience_s: float = flag(
        300.0,
        "seconds that a request waits in total if the server refuses it (429, or 503 with Retry-After); this "
        "does not use up attempts. The number of parallel requests adapts by itself.",
        at_least=0,
        shown="all",
        only=ASKED,
    )


@group("The vLLM server that the command starts")
class VLLM(Settings):
    tensor_parallel_size: int = flag(
        1, "GPUs that share one copy of the model.", at_least=1, shown="all", only=OWN_VLLM
    )
    data_parallel_size: int = flag(1, "copies of the model.", at_least=1, shown="all", only=OWN_VLLM)
    vllm_python: str | None = flag(
        None, "Python interpreter that has vLLM installed; default this one.", shown="all", only=OWN_VLLM
    )
    vllm_args: str = flag(
        "",
        'more arguments for the vLLM server, in one string: --vllm_args="--max-model-len 8192".',
        shown="all",
        only=OWN_VLLM,
    )


@group("Where models run")
class Placement(Settings):
    device: str = flag("auto", "where models run: auto, cpu, cuda, cuda:1, ...", shown="all", only=IN_PROCESS)

    dtype: str = flag("auto", "precision: auto, float32, bfloat16 or float16.", shown="all", only=IN_PROCESS)


@group("The agent")
class Agent(Settings):
    agent: str = flag("auto", "who acts.")


@group("The agent")
class AgentModel(Settings):
    agent_model: str = flag(
        "auto", "the model: a folder, a hub name, smollm2, embedded, or a server's name for its model."
    )


@group("How long")
class Iterations(Settings):
    iterations: int | None = flag(None, "of every run.", at_least=1)


@group("Scripted agents")
class Skill(Settings):
    skill: float | None = flag(
        None,
        "probability that a scripted agent takes one of the best actions, 0 to 1; otherwise it takes any "
        "action. The default depends on the agent.",
        at_least=0,
        at_most=1,
    )


@group("What is imitated")
class MinReward(Settings):
    min_reward: float | None = flag(None, "only trajectories with at least this reward; default all.")


@group("Model and data")
class Dataset(Settings):
    dataset: str = flag(
        REQUIRED,
        "preference pairs: .jsonl, .json, .csv, .parquet or .jsonl.gz files, or hub names (name@data_dir), separated by commas.",
    )


@group("Model and data")
class Pretrain(Settings):
    pretrain: str = flag(REQUIRED, "model to train: a folder, a hub name, smollm2 or embedded.")


@group("The model")
class Tokenizer(Settings):
    tokenizer: str | None = flag(
        None, "folder or name of the tokenizer; default the model's own.", shown="all"
    )


@group("Scores")
class Critic(Settings):
    critic: str | None = flag(
        None,
        "critic, which runs in process: folder or hub name of a model from train_dpo or train_reward_model, "
        "or of an untrained model (also smollm2, embedded).",
        shown="all",
    )


@group("Which scores")
class WithoutHidden(Settings):
    without_hidden: bool = flag(False, "score only without the hidden solution.")


@group("Scores")
class Advantage(Settings):
    advantage: Literal["released", "paper"] = flag(
        "released",
        "released (the reference is the sampler, which does not see the solution) or paper (equation 3: the "
        "reference sees the solution, too; needs --reference_model).",
    )
    reference_model: str | None = flag(
        None,
        "model that sampled the turns, with which the reference's log-probabilities are computed; needed if the file has none.",
    )

    def check_together(self) -> None:
        """Whether the paper's advantage has its reference."""
        if self.advantage == "paper" and self.reference_model is None:
            raise UsageError(
                "--advantage paper needs --reference_model: the model that sampled, whose log-probabilities "
                "are computed again with the hidden solution before the prompt."
            )


@group("Grading")
class Metric(Settings):
    metric: Literal["auto", "clip", "combined", "ssim", "colour", "text", "layout"] = flag(
        "auto", "which metric of two pages counts."
    )


@group("The model")
class MaxTokens(Settings):
    max_tokens: int = flag(1024, "longest reply, in tokens.", at_least=1, only=A_MODEL)


@group("Pictures")
class MaxPixels(Settings):
    max_pixels: int = flag(
        50176, "largest picture, in pixels; larger ones are scaled down.", at_least=1, shown="all"
    )


@group("How preference pairs are read")
class PairFields(Settings):
    prompt_key: str | None = flag(
        None,
        "field with the prompt that both sides answer; default: prompt in rows that have it, else the sides are "
        "whole dialogues (published: always whole dialogues).",
    )
    chosen_key: str = flag(
        "chosen",
        "field with the preferred side: a text, an object with input and output, or a list of messages, which may "
        "show pictures.",
        shown="all",
    )
    rejected_key: str = flag("rejected", "field with the other side.", shown="all")
    other_tokenizer: bool = flag(
        False,
        "also accept turns that were sampled with another tokenizer; their texts are tokenised again.",
        shown="all",
    )


@group("The sandbox")
class NoSandbox(Settings):
    unsafe_no_sandbox: bool = flag(
        False, "run code without a sandbox if the kernel offers too little protection.", shown="all"
    )
