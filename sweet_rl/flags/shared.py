"""Flags of many stages, each declared once; a stage's settings extend the classes whose flags it has."""

from __future__ import annotations

import importlib
from typing import Any, Final, Literal

from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Only, Settings, flag, group
from sweet_rl.flags.models import ASKED
from sweet_rl.tracking import Destination
from sweet_rl.types import Compat

RAY: Final = Only("fan_out", ("ray",))


@group("Inputs and outputs")
class InputPath(Settings):
    input_path: str = flag(REQUIRED, "the .jsonl file that is read.")


@group("Inputs and outputs")
class OutputPath(Settings):
    output_path: str = flag(REQUIRED, "the .jsonl file that is written.")


@group("Inputs and outputs")
class Files(InputPath, OutputPath):
    pass


@group("Inputs and outputs")
class SavedPath(Settings):
    saved_path: str = flag(REQUIRED, "trajectory file of sweet-rl simulate_interactions, or a published one.")


@group("Inputs and outputs")
class Source(Settings):
    source: str = flag(REQUIRED, "where the tasks come from.")


@group("Tasks")
class NumTasks(Settings):
    num_tasks: int | None = flag(
        None, "so many of them at most, from the first on.", at_least=1, aliases=("limit",)
    )


@group("Tasks")
class Repeated(NumTasks):
    sample_ids: str | None = flag(
        None,
        "play these tasks alone: their ids, or their places in the list from 0 on, one by one or as ranges (0-9,17), "
        "with commas between them.",
    )
    repeats: int = flag(
        1,
        "episodes of every task; pass@k and pass^k are over them.",
        at_least=1,
        aliases=("best_of_n", "epochs"),
    )


@group("Tasks")
class Tasks(Settings):
    tasks: str | None = flag(
        None, "what is played: one of the world's lists, or a file; default: the world's own."
    )


@group("Tasks")
class WorldName(Settings):
    world: str = flag(
        REQUIRED,
        "what is played: a world's name, or module:ATTRIBUTE of your own (`sweet_rl.worlds`).",
        aliases=("task_type",),
    )


@group("Inputs and outputs")
class OutputDir(Settings):
    output_dir: str = flag(REQUIRED, "folder for everything that is made.")


@group("Inputs and outputs")
class TempPath(Settings):
    temp_path: str | None = flag(None, "folder of pictures.", shown="all")


@group("Inputs and outputs")
class ReportPath(Settings):
    report_path: str | None = flag(
        None, "JSON file for the numbers; default saved_path with .report.json in place of .jsonl."
    )


@group(
    "What a run may use of models behind servers, all its sessions and retries together; then it stops, resumably"
)
class Budget(Settings):
    prices: str | None = flag(
        None,
        "TOML or JSON file with dollars per million tokens of models; the record of the run (run.json) then has "
        "what it has cost.",
        shown="all",
    )
    max_cost: float | None = flag(
        None, "dollars by --prices, which must have every model.", above=0, shown="all", only=ASKED
    )
    max_requests: int | None = flag(None, "requests.", at_least=1, shown="all", only=ASKED)
    max_total_tokens: int | None = flag(None, "tokens read and written.", at_least=1, shown="all", only=ASKED)

    def check_together(self) -> None:
        """Whether what is spent can be known."""
        if self.max_cost is not None and self.prices is None:
            raise UsageError("--max_cost needs --prices, a file with what the models' tokens cost.")


@group("Like many stages")
class Overwriting(Settings):
    overwrite: bool = flag(False, "replace outputs that exist.")


@group("Like many stages")
class Quiet(Settings):
    quiet: bool = flag(False, "no progress bar.")


LogKind = Literal["tensorboard", "wandb", "trackio", "none"]


@group("Like many stages")
class LogTo(Settings):
    log_to: LogKind | None = flag(
        None,
        "where numbers go while it works: tensorboard (a folder beside the output), wandb, trackio, or none (default).",
    )

    def destination(self) -> Destination:
        """What `sweet_rl.tracking.logs_to` takes."""
        return Destination(kinds=() if self.log_to in {None, "none"} else (str(self.log_to),))


@group("Like many stages")
class Seeded(Settings):
    seed: int = flag(0, "of all draws; the same seed makes the same.")


@group("Like many stages")
class Continuing(Overwriting):
    to_continue: bool = flag(
        False, "finish what was stopped: what the output holds is kept, the rest is done."
    )


@group("Like many stages")
class Resumable(Continuing, LogTo, Quiet):
    pass


@group("Like many stages")
class Compatible(Settings):
    compat: Compat = flag(
        "fixed",
        "fixed, or published: as the published system does it, to compare numbers.",
        formerly=("strict",),
        shown="all",
        bare="published",
    )

    @property
    def published(self) -> bool:
        """Whether it is done as published, oddities included."""
        return self.compat == "published"


@group("Like many stages")
class MaxFailed(Settings):
    max_failed: float = flag(
        0.02,
        "share of the episodes that may fail because a service is missing; with more, the exit status is 1, and the same "
        "command plays them again.",
        at_least=0,
        at_most=1,
        shown="all",
    )


@group("How fast")
class BatchSize(Settings):
    batch_size: int = flag(1000, "episodes in flight at once.", at_least=1)


@group("How fast")
class Jobs(Settings):
    jobs: int = flag(2, "stages at once, each with one thread.", at_least=1)


@group("On a cluster")
class FanOut(Settings):
    fan_out: Literal["local", "ray"] = flag(
        "local", "local (this machine), or ray: a worker on each machine of a Ray cluster.", shown="all"
    )
    ray_address: str = flag(
        "auto",
        "auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this "
        "run), or HOST:PORT of its head.",
        shown="all",
        only=RAY,
    )
    ray_workers: int | None = flag(
        None, "workers; default one on each machine.", at_least=1, shown="all", only=RAY
    )

    def check_together(self) -> None:
        """Whether the address is one."""
        address = self.ray_address
        if address not in {"auto", "local"} and not address.rpartition(":")[2].isdigit():
            raise UsageError(
                f"--ray_address must be auto, local or HOST:PORT (10.0.0.1:6379, for example), got {address!r}."
            )

    @property
    def cluster(self) -> Any:
        """What does the stage's pieces over a cluster (`sweet_rl.integrations.ray`); None for this process."""
        return None if self.fan_out == "local" else importlib.import_module("sweet_rl.integrations.ray")


@group("On a cluster")
class ModelFanOut(FanOut):
    ray_gpus_per_worker: float | None = flag(
        None,
        "GPUs of one copy of the model, also a fraction; default 1 where the cluster has any.",
        at_least=0,
        shown="all",
        only=RAY,
    )


@group("Where it listens")
class Listening(Settings):
    port: int | None = flag(
        None,
        "port to listen at; 0 for any free one, which is printed; default 8000.",
        at_least=0,
        at_most=65535,
    )
    host: str = flag("127.0.0.1", "address to listen at.")

    @property
    def at_port(self) -> int:
        """The port."""
        return 8000 if self.port is None else self.port


@group("Inputs and outputs")
class SaveSteps(Settings):
    save_steps: int = flag(-1, "updates between two checkpoints; -1: none.")


@group("Pairs")
class Margin(Settings):
    margin: float = flag(0.0, "by how much the two sides of a pair differ at least.", at_least=0)


@group("Like many stages")
class GraderName(Settings):
    grader: str = flag(
        "auto", "auto (the world's), the name that an installed package gives one, or module:ATTRIBUTE."
    )


@group("Grading")
class Regrade(Settings):
    regrade: bool = flag(False, "grade all rows again, also those that have their grades.")


@group("Pairs")
class HardNegatives(Settings):
    hard_negatives: int = flag(
        0,
        "rows for each pair (of each turn, where turns are ranked) that reject what the agent had said before in "
        "the same dialogue, so that it does not learn to repeat itself.",
        at_least=0,
        shown="all",
    )


@group("Inputs and outputs")
class Evaluation(SavedPath, ReportPath, HardNegatives, Overwriting):
    k: int | None = flag(
        None,
        "repeats of each task in the file (--repeats of the simulation); default: what its rows say, 1 where they "
        "say nothing, as published ones.",
        at_least=1,
    )
    preference_path: str | None = flag(
        None, "write pairs for multi-turn DPO there: best against worse dialogues of a task."
    )
    ground_truth_preference_path: str | None = flag(
        None, "write the same pairs there, each preceded by the hidden solution: the critic's data."
    )

    def check_together(self) -> None:
        """Whether there are pairs that rows can stand beside."""
        if self.hard_negatives and self.preference_path is None:
            raise UsageError("--hard_negatives adds rows to --preference_path: name that file, too.")
