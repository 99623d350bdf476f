"""Flags of many stages, each said once; a stage's settings extend the classes whose flags it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweet_rl.flags.fields import Settings, flag


@dataclass(frozen=True, kw_only=True)
class Overwriting(Settings):
    """Like many stages."""

    overwrite: bool = flag(False, "replace outputs that exist.")


@dataclass(frozen=True, kw_only=True)
class Quiet(Settings):
    """Like many stages."""

    quiet: bool = flag(False, "no progress bar.")


@dataclass(frozen=True, kw_only=True)
class Seeded(Settings):
    """Like many stages."""

    seed: int = flag(0, "of all draws; the same seed makes the same.")


@dataclass(frozen=True, kw_only=True)
class Continuing(Overwriting):
    """Like many stages."""

    to_continue: bool = flag(
        False, "finish what was stopped: what the output holds is kept, the rest is done."
    )


@dataclass(frozen=True, kw_only=True)
class ContinuingOtherwise(Continuing):
    """Like many stages."""

    force_continue: bool = flag(
        False, "continue although settings that decide about the rows differ.", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class Strict(Settings):
    """Like many stages."""

    strict: bool = flag(False, "as published, oddities included; for comparisons.", shown="all")


@dataclass(frozen=True, kw_only=True)
class Compat(Settings):
    """Like many stages."""

    compat: Literal["fixed", "published"] = flag(
        "fixed", "fixed, or published: as the published system does it, to compare numbers.", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class FanOut(Settings):
    """On a cluster."""

    fan_out: str = flag(
        "local",
        "local (this machine), or ray: a worker on each machine of a Ray cluster.",
        shown="all",
        choices=("local", "ray"),
    )
    ray_address: str = flag(
        "auto",
        "auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this "
        "run), or HOST:PORT of its head.",
        shown="all",
    )
    ray_workers: int | None = flag(None, "workers; default one on each machine.", at_least=1, shown="all")


@dataclass(frozen=True, kw_only=True)
class ModelFanOut(FanOut):
    """On a cluster."""

    ray_gpus_per_worker: float | None = flag(
        None, "GPUs of one worker; default 1 where the cluster has GPUs, else 0.", at_least=0, shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class Requests(Settings):
    """Requests to servers."""

    request_timeout_s: float = flag(
        600.0, "seconds that one request may take, once it is sent.", above=0, shown="all"
    )
    request_attempts: int = flag(
        8, "how often a request is tried when it fails in a way that can pass.", at_least=1, shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class VLLM(Settings):
    """A vLLM of our own."""

    tensor_parallel_size: int = flag(1, "GPUs that share one copy of the model.", at_least=1, shown="all")
    data_parallel_size: int = flag(1, "copies of the model.", at_least=1, shown="all")
    vllm_python: str | None = flag(
        None, "interpreter of the environment that has vLLM; default this one.", shown="all"
    )
    vllm_args: str = flag("", "further arguments for vLLM, as a shell would split them.", shown="all")


@dataclass(frozen=True, kw_only=True)
class Evaluation(Overwriting):
    """Outputs of an evaluation."""

    k: int = flag(1, "repeats of each task in the file (--best_of_n of the simulation).", at_least=1)
    preference_path: str | None = flag(
        None, "write pairs for multi-turn DPO there: best against worse dialogues of a task."
    )
    ground_truth_preference_path: str | None = flag(
        None, "write the same pairs there, each preceded by the hidden solution: the critic's data."
    )
    report_path: str | None = flag(
        None, "JSON file for the numbers; default saved_path with .report.json in place of .jsonl."
    )
