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
        None, "use only this many tasks, from the first on.", at_least=1, aliases=("limit",)
    )


@group("Tasks")
class Repeated(NumTasks):
    sample_ids: str | None = flag(
        None,
        "play only these tasks: ids, or positions in the list counted from 0, as numbers or ranges separated by commas (0-9,17).",
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
        None, "tasks: one of the world's lists, or a file; default: the world's default list."
    )


@group("Tasks")
class WorldName(Settings):
    world: str = flag(
        REQUIRED,
        "world: its name, or module:ATTRIBUTE for a world of your own (docs/your_world.md).",
        aliases=("task_type",),
    )


@group("Inputs and outputs")
class OutputDir(Settings):
    output_dir: str = flag(REQUIRED, "folder for all outputs.")


@group("Comparison and output")
class HtmlPath(Settings):
    html: str | None = flag(
        None,
        "also write a page with dialogues side by side, such as comparison.html, and its numbers as JSON beside it (.json).",
    )


@group("Inputs and outputs")
class TempPath(Settings):
    temp_path: str | None = flag(None, "folder of pictures.", shown="all")


@group("Inputs and outputs")
class ReportPath(Settings):
    report_path: str | None = flag(
        None, "JSON file for the report; default: --saved_path with .report.json in place of .jsonl."
    )


@group(
    "Limits on models behind servers, over all sessions and retries; a run that reaches one stops, resumably"
)
class Budget(Settings):
    prices: str | None = flag(
        None,
        "TOML or JSON file with the models' prices in dollars per million tokens; the record of the run (run.json) then contains its cost.",
        shown="all",
    )
    max_cost: float | None = flag(
        None, "most dollars; --prices must list every model.", above=0, shown="all", only=ASKED
    )
    max_requests: int | None = flag(None, "most requests.", at_least=1, shown="all", only=ASKED)
    max_total_tokens: int | None = flag(
        None, "most tokens, read and written.", at_least=1, shown="all", only=ASKED
    )

    def check_together(self) -> None:
        """Whether what is spent can be known."""
        if self.max_cost is not None and self.prices is None:
            raise UsageError("--max_cost needs --prices, a file with what the models' tokens cost.")


@group("Common to many stages")
class Overwriting(Settings):
    overwrite: bool = flag(False, "replace existing outputs.")


@group("Common to many stages")
class Quiet(Settings):
    quiet: bool = flag(False, "show no progress bar.")


LogKind = Literal["tensorboard", "wandb", "trackio", "none"]


@group("Common to many stages")
class LogTo(Settings):
    log_to: LogKind | None = flag(
        None,
        "where metrics are logged during the run: tensorboard (a folder beside the output), wandb, trackio, or none (default).",
    )

    def destination(self) -> Destination:
        """What `sweet_rl.tracking.logs_to` takes."""
        return Destination(kinds=() if self.log_to in {None, "none"} else (str(self.log_to),))


@group("Common to many stages")
class Seeded(Settings):
    seed: int = flag(0, "random seed; the same seed gives the same result.")


@group("Common to many stages")
class Continuing(Overwriting):
    to_continue: bool = flag(False, "resume an interrupted run: keep what the output holds and do the rest.")


@group("Common to many stages")
class Resumable(Continuing, LogTo, Quiet):
    pass


@group("Common to many stages")
class Compatible(Settings):
    compat: Compat = flag(
        "fixed",
        "fixed, or published: behave as the published system, to compare numbers.",
        formerly=("strict",),
        shown="all",
        bare="published",
    )

    @property
    def published(self) -> bool:
        """Whether it is done as published, oddities included."""
        return self.compat == "published"


@group("Common to many stages")
class MaxFailed(Settings):
    max_failed: float = flag(
        0.02,
        "share of the episodes that may fail because a service could not be used. Above it, the exit status "
        "is 1, and the same command plays the failed episodes again.",
        at_least=0,
        at_most=1,
        shown="all",
    )


@group("How much at once")
class BatchSize(Settings):
    batch_size: int = flag(1000, "episodes in flight at once.", at_least=1)


@group("How much at once")
class Jobs(Settings):
    jobs: int = flag(2, "stages at once, each with one thread.", at_least=1)


@group("On a cluster")
class FanOut(Settings):
    fan_out: Literal["local", "ray"] = flag(
        "local", "local (this machine), or ray (a worker on each machine of a Ray cluster).", shown="all"
    )
    ray_address: str = flag(
        "auto",
        "Ray cluster: auto (the one running on this machine, or named by RAY_ADDRESS), local (a new one for "
        "this run), or HOST:PORT of its head.",
        shown="all",
        only=RAY,
    )
    ray_workers: int | None = flag(
        None, "number of workers; default one on each machine.", at_least=1, shown="all", only=RAY
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
        "GPUs for each copy of the model, possibly a fraction; default 1 if the cluster has GPUs.",
        at_least=0,
        shown="all",
        only=RAY,
    )


@group("Address")
class Listening(Settings):
    port: int | None = flag(
        None, "port to listen on; 0: any free one, which is printed; default 8000.", at_least=0, at_most=65535
    )
    host: str = flag("127.0.0.1", "address to listen on.")

    @property
    def at_port(self) -> int:
        """The port."""
        return 8000 if self.port is None else self.port


@group("Inputs and outputs")
class SaveSteps(Settings):
    save_steps: int = flag(-1, "updates between two checkpoints; -1: no checkpoints.")


@group("Pairs")
class Margin(Settings):
    margin: float = flag(0.0, "smallest difference between the two sides of a pair.", at_least=0)


@group("Common to many stages")
class GraderName(Settings):
    grader: str = flag(
        "auto", "grader: auto (the world's), the name of one from an installed package, or module:ATTRIBUTE."
    )


@group("Grading")
class Regrade(Settings):
    regrade: bool = flag(False, "grade all rows again, including those that already have grades.")


@group("Pairs")
class HardNegatives(Settings):
    hard_negatives: int = flag(
        0,
        "extra rows for each pair (or for each turn, if turns are ranked) whose rejected side repeats an "
        "earlier turn of the dialogue, so that the agent does not learn to repeat itself.",
        at_least=0,
        shown="all",
    )


@group("Inputs and outputs")
class Evaluation(SavedPath, ReportPath, HardNegatives, Overwriting):
    k: int | None = flag(
        None,
        "repeats of each task in the file (--repeats of the simulation); default: as recorded in its rows; 1 "
        "if they record none, as published files do.",
        at_least=1,
    )
    preference_path: str | None = flag(
        None, "file for preference pairs (multi-turn DPO): a better and a worse dialogue of a task."
    )
    ground_truth_preference_path: str | None = flag(
        None, "file for the same pairs, each preceded by the hidden solution, to train a critic."
    )

    def check_together(self) -> None:
        """Whether there are pairs that rows can stand beside."""
        if self.hard_negatives and self.preference_path is None:
            raise UsageError("--hard_negatives adds rows to --preference_path: name that file, too.")
