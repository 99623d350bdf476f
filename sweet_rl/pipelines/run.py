"""The command that runs a pipeline."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Settings, flag, listed
from sweet_rl.flags.shared import Jobs


@dataclass(frozen=True, kw_only=True)
class FileFlags(Settings):
    """What is run."""

    file: str = flag(
        REQUIRED,
        "the pipeline: a YAML file (docs/pipelines.md); of several, with commas, a later one is laid over the others.",
    )


@dataclass(frozen=True, kw_only=True)
class RunFlags(FileFlags, Jobs):
    """What is run."""

    dry_run: bool = flag(
        False,
        "run nothing: show every stage's command, whether it would run and why, and about what it takes.",
    )
    only: str = flag("", "run these stages alone; names with commas between them.")
    until: str = flag("", "stop after these stages: they are run, with all that they need.")
    preflight: Literal["yes", "only", "no"] = flag(
        "yes",
        "look first whether the stages to run have what they need; only: and run nothing; no: begin at once.",
    )


@recorded("run", reads=("file",))
@stage("file", defaults={"jobs": 1}, helps={"jobs": "stages at once, where they do not need each other."})
def run(flags: RunFlags, /, *set: str) -> None:
    """Run a pipeline: stages of a YAML file, each once, skipping what is done; it resumes where it stopped.

    A stage is done if its last run ended well, with the settings that it has now, and its inputs are the same
    files (by digest). A changed setting or input runs the stage again, and what depends on it; what it made before
    is moved aside. Nothing else is kept than the records (run.json) that every stage writes.

    sweet-rl run configs/sweet/embedded.yaml
    sweet-rl run configs/sweet/llama8b.yaml --dry_run --set values.human_host=gpu7 --set folder=outputs/mine

    Args:
        set: --set NAME=VALUE gives a value of the file another one: values.model=/models/mine, folder=outputs/run2, iterations=2, stages.critic.with.beta=0.2.
    """
    from sweet_rl.pipelines.pipeline import build, laid_over, override, read_file
    from sweet_rl.pipelines.preflight import look
    from sweet_rl.pipelines.running import plan, run_steps

    tree = functools.reduce(laid_over, map(read_file, listed(flags.file)))
    for setting in set:
        override(tree, setting)
    pipeline = build(tree)
    if flags.only and flags.until:
        raise UsageError("--only and --until exclude each other.")
    steps = pipeline.chosen(only=listed(flags.only), until=listed(flags.until))
    to_run, lines = plan(steps, pipeline.folder)
    if flags.dry_run:
        print(*lines, sep="\n")
        return
    if flags.preflight != "no" and to_run:
        wrong = 0
        for finding in look(to_run, pipeline.folder, pipeline.steps):
            print(finding, flush=True)
            wrong += finding.level == "WRONG"
        if wrong:
            raise UsageError(
                f"The run lacks {wrong} of the things that it needs (see above); nothing was started. "
                "--preflight no starts without them."
            )
    if flags.preflight == "only":
        return
    alone = shutil.which("nvidia-smi") is None and not any(step.launcher for step in steps)
    run_steps(steps, pipeline.folder, jobs=flags.jobs, fresh=not alone)
    print(f"Done: {len(steps)} stages; what they made is in {pipeline.folder}")


def _sets(arguments: Sequence[str]) -> list[str]:
    """`--set NAME=VALUE`, as often as it is given, moved behind all other words."""
    rest, settings, left = list[str](), list[str](), list(arguments)
    while left:
        word = left.pop(0)
        if word == "--set" and not left:
            raise UsageError("--set needs NAME=VALUE.")
        if word == "--set" or word.startswith("--set="):
            settings.append(left.pop(0) if word == "--set" else word.removeprefix("--set="))
        else:
            rest.append(word)
    if settings and rest and rest[-1].replace("-", "_") == "__dry_run":
        rest[-1] += "=true"  # what follows is not its value
    return [*rest, *settings]


run.rewrite_arguments = _sets  # type: ignore[attr-defined]
