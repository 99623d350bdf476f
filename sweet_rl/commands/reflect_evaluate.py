"""Evaluation of checkpoints: success rates with intervals, printed and as JSON; runs as pictures and as one log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.cli.parse import Options
from sweet_rl.cli.progress import Bar, silence_libraries
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.reflect_train import reflect_stage, settings_from, teller, with_tiny_models
from sweet_rl.errors import EpisodeError, ServiceError, UsageError, missing_package, no_such
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import (
    Compatible,
    MaxFailed,
    OutputDir,
    Overwriting,
    Quiet,
    ReportPath,
    Tasks,
    WorldName,
)
from sweet_rl.online.reflect import settings as reflect
from sweet_rl.online.reflect.settings import ReflectFlags, ReflectSettings, as_flags
from sweet_rl.records import replace_file
from sweet_rl.reflect_data.texts import MaxTurns, Output, TeacherFlags, teacher_stage
from sweet_rl.runs import new_file
from sweet_rl.text_game import TextGame
from sweet_rl.types import derive_seed
from sweet_rl.worlds import first_for, names, world_of
from sweet_rl.worlds.base import tasks_in
from sweet_rl.worlds.options import Measured
from sweet_rl.worlds.text_games import games_of

if TYPE_CHECKING:
    from sweet_rl.reflect_data.jobs import Done, Job
    from sweet_rl.reflect_data.teachers import Expert, Teacher


AGENT: Final = "agent:"  # before the name of an agent of the world
LINEAR: Final = "linear:"  # before a file of training texts


@group("What is evaluated and written")
class MeasuringFlags(ReportPath, Overwriting, Quiet):
    swap_reflections: bool = flag(
        False, "give states each other's reflections: a policy that does equally well ignores them."
    )


@recorded(
    "reflect evaluate",
    reads=("model_name", "reflect_model_name", "load_dir", "reflect_load_dir", "task_file"),
)
@reflect_stage(
    mode="test",
    helps={"report_path": ".json file for settings and results; default: none is written."},
    narrow={"report_path": {"aliases": ("report",)}},
)
def evaluate(published: ReflectFlags, how: MeasuringFlags, own: Any, /, *checkpoints: str) -> None:
    """Play eval_reps episodes of every task with each checkpoint, and print success rates and costs by level.

    A checkpoint is POLICY, or POLICY+REFLECTION for a policy that reads the reflections of another model;
    base is the model without an adapter. For ceiling and floors, agent:NAME is an agent of the world (such as
    its planner or random), and linear:TEXTS a linear policy fitted to training texts (linear:TEXTS+REFLECTION
    reads reflections). Without arguments, --load_dir and --reflect_load_dir are evaluated. Models, rank and
    precision are those of the checkpoint's own run. All checkpoints play the same games, in which no files of
    repositories are hidden.

    sweet-rl reflect evaluate results/003_rl_finetune/checkpoint-5000 --env WORLD --per_device_eval_batch_size 50

    Args:
        checkpoints: checkpoint folders, POLICY or POLICY+REFLECTION; also base, agent:NAME and linear:TEXTS.
    """
    flags = settings_from(published, own)
    for name in ("load_dir", "reflect_load_dir", "reflect") if checkpoints else ():
        if getattr(flags, name):
            raise UsageError(
                f"--{name} has no effect with named checkpoints. Name POLICY+REFLECTION, or leave the names out."
            )
    if flags.reflect_prob != 1:
        raise UsageError(
            f"A policy is evaluated with a reflection in each state: leave out --reflect_prob {flags.reflect_prob:g}."
        )
    report = how.report_path
    if report is not None:
        new_file(report, "report_path", overwrite=how.overwrite)
    for part in (part for checkpoint in checkpoints for part in checkpoint.split("+")):
        if not part.startswith(AGENT):
            tracking.reads("checkpoints", part.removeprefix(LINEAR))
    reflector = flags.reflect_load_dir
    if not (checkpoints or flags.load_dir or reflector):
        raise UsageError(
            "Name at least one checkpoint: POLICY, or POLICY+REFLECTION; the model itself is called base."
        )
    named = checkpoints or (
        "+".join([flags.load_dir or "base", *([reflector or "base"] if flags.reflect or reflector else [])]),
    )
    say = teller()
    plans = [_plan(name, flags) for name in named]
    for name, settings in zip(named, plans, strict=True):
        if how.swap_reflections and not settings.reflect:
            raise UsageError(
                f"--swap_reflections: {name} has no reflection model. Add one: POLICY+REFLECTION."
            )
    measured = []
    for name, settings in zip(named, plans, strict=True):
        measured.append(_measure(name, settings, say, how))
        if report is not None:  # after each: the next may fail, and they take long
            text = json.dumps({"checkpoints": measured}, indent=1) + "\n"
            tracking.writes(report)
            replace_file(Path(report), [text.encode()])
    if report is not None:
        print(f"The report is in {report}")
    broken = [row["level"] for each in measured for row in each["levels"] if row["success"] is None]
    if broken:
        raise ServiceError(f"All episodes of {broken[0]} failed in the world: there is nothing to evaluate.")


def _plan(name: str, flags: ReflectSettings) -> ReflectSettings:
    """The settings with which a checkpoint or a baseline is measured; nothing is loaded yet."""
    from sweet_rl.online.reflect.sft import read_texts

    policy, plus, reflection = name.partition("+")
    if policy.startswith(AGENT):
        if (agent := policy.removeprefix(AGENT)) not in flags.world.agents:
            raise no_such("agent", agent, flags.world.agents)
        if plus:
            raise UsageError(f"{policy} does not read reflections; leave out the part after the +.")
    if policy.startswith(LINEAR):
        if not flags.world.learning.head:
            raise UsageError(f"{policy} needs a list of commands in each state, and {flags.env} has none.")
        read_texts(policy.removeprefix(LINEAR))
    settings = replace(
        flags,
        load_dir=None if policy == "base" or policy.startswith((AGENT, LINEAR)) else policy,
        reflect=bool(plus),
        reflect_load_dir=None if reflection in {"", "base"} else reflection,
        reflect_prob=1.0,
    )
    reflect.check(settings)
    return reflect.with_saved_reflector(reflect.with_saved(settings, settings.load_dir))


def _measure(
    name: str, settings: ReflectSettings, say: Callable[[str], None], how: MeasuringFlags
) -> dict[str, Any]:
    """One checkpoint: settings and results."""
    from sweet_rl.online.reflect.play import open_playground, sample_texts

    with open_playground(settings, measures=True) as playground, TemporaryDirectory() as folder:
        silence_libraries()
        from sweet_rl.online.reflect.agent import Sampling
        from sweet_rl.online.reflect.loop import measure, scripted
        from sweet_rl.online.reflect.models import load_policy, load_reflector
        from sweet_rl.online.reflect.play import OthersReflections
        from sweet_rl.online.reflect.sft import read_texts
        from sweet_rl.training.processes import process_group

        settings = with_tiny_models(
            settings, Path(folder), lambda: sample_texts(playground), playground.labels
        )
        for note in reflect.without_effect(settings):
            say(f"Note: {note}")
        reflector = load_reflector(settings, say)
        policy = name.partition("+")[0]
        agent: Any
        if policy.startswith(AGENT):
            agent = scripted(settings, playground, policy.removeprefix(AGENT))
        elif policy.startswith(LINEAR):
            actor = resolve_name("sweet_rl.studies.linear_policy:LinearActor")
            actor = actor(settings.world.learning.head or "", Sampling.of(settings), seed=settings.seed)
            agent = actor.fit(read_texts(path := policy.removeprefix(LINEAR)), path)
        else:
            agent = load_policy(settings, playground.labels, say, trains=False)
        total = settings.eval_reps * sum(map(len, playground.levels))
        reads = OthersReflections(reflector) if reflector and how.swap_reflections else reflector
        with process_group(), Bar(total, 0, unit="episode", quiet=how.quiet) as bar:
            results = measure(settings, playground, agent, reads, bar.update)
    print(f"{name}, every state with the reflection of another" if how.swap_reflections else name)
    swapped = {}
    if isinstance(reads, OthersReflections):
        swapped = {"states": reads.states, "states_with_their_own_reflection": reads.own}
    for result in results:
        print(f"  {result.line()}")
    return {
        "checkpoint": name,
        "settings": as_flags(settings) | {"swap_reflections": how.swap_reflections},
        "levels": [asdict(result) for result in results],
        **swapped,
    }


@group("This stage")
class EvaluateGptFlags(WorldName, Tasks, MaxTurns, Output, MaxFailed, Overwriting, Compatible, Quiet):
    random: bool = flag(False, "play at random instead of asking a model: the floor.")
    react: bool = flag(True, "ask the model to think before each action (ReAct).")
    runs: int = flag(10, "episodes.", at_least=1)


@recorded("reflect evaluate_gpt", reads=("tasks",), prices=True, resumes=True)
@teacher_stage(
    defaults={"model": "gpt-3.5-turbo", "output": ".", "world": first_for("as_it_is")},
    helps={
        "world": "world, by its name or its published name.",
        "output": "folder of result.txt and result_episode.txt.",
        "tasks": "games: one of the world's lists, or a file; default: the world's evaluation tasks.",
        "compat": "fixed, or published: anything in a reply that might be a label counts, a reply without a "
        "label becomes a random action, and episodes are scored by the published return of the "
        "world.",
        "teacher": "embedded (the expert: the ceiling), or openai: a model behind an OpenAI-compatible server.",
        "concurrency": "episodes in flight.",
    },
    narrow={"world": {"aliases": ("scenario",)}},
    options=Options("world", lambda name: world_of(name).learning.flags, names),
)
def evaluate_gpt(flags: EvaluateGptFlags, teacher_flags: TeacherFlags, own: Any, /) -> None:
    """Let an untrained model play a world whose agents choose labels.

    Name the model with --teacher openai --base_url URL --model NAME. Without these flags, the embedded player
    is evaluated instead (with --random: a random player), and the result says so.

    Run i has seed i. The episodes are appended to result_episode.txt, and a line of figures to result.txt.
    The same command resumes an interrupted run.
    """
    from sweet_rl.openai_client import RequestFailed
    from sweet_rl.reflect_data.jobs import Done, JobFile, beside, judge_episodes, teach_all
    from sweet_rl.reflect_data.teachers import NO_EXPERT, chance
    from sweet_rl.reflect_data.teachers import play as play_one

    folder, overwrite = Path(flags.output), flags.overwrite
    world = world_of(flags.world)
    if world.learning.measured is not None:
        measured = world.learning.measured(own, flags.tasks, flags.max_turns)
    elif world.learning.head is None:
        raise UsageError(f"{world.name} has no labels to choose from, and this stage asks a model for one.")
    else:
        played = tasks_in(world, flags.tasks or world.tasks.test)
        measured = Measured(world.name, played, world.options(max_turns=flags.max_turns))
    name = "random" if flags.random else teacher_flags.name
    journal = beside(folder / "result.txt", f"{flags.world}.{name}", "journal")
    settings = {  # what decides about the content
        **teacher_flags.settings(),
        **{of: getattr(flags, of) for of in ("world", "random", "max_turns", "react", "tasks", "compat")},
        **asdict(own),
    }
    planned = {f"run {number}": number for number in range(flags.runs)}
    with (
        games_of(world, measured.options) as make_game,
        JobFile(journal, settings, overwrite=overwrite) as jobs,
    ):
        tracking.writes(journal, continues=not overwrite)
        for file in ("result.txt", "result_episode.txt"):
            tracking.writes(folder / file, continues=True)

        def expert(game: TextGame, number: int) -> Expert:
            if flags.random:
                return chance(game, derive_seed(number, "chance"))
            if teacher_flags.teacher != "embedded":
                return NO_EXPERT
            if knows := world.learning.expert(game):
                return knows
            raise UsageError(
                f"{world.name} has no expert: name a model with --teacher openai, or play at random with --random."
            )

        async def episode(job: Job[int], teacher: Teacher) -> Done:
            task = measured.tasks[Random(job.item).randrange(len(measured.tasks))]
            game = make_game()
            knows = expert(game, job.item)
            try:
                game.reset(task, seed=job.item)
                seed = derive_seed(job.item, job.attempt)
                one = await play_one(game, knows, teacher, seed=seed, react=flags.react, compat=flags.compat)
            except (EpisodeError, RequestFailed) as error:
                return Done(None, (error.failure,))
            finally:
                game.close()
            reward = round(-one.cost, 6)
            won = reward > measured.published_return if flags.published else one.cost < game.success_threshold
            result = {"task_id": task.task_id, "won": won, "reward": reward, "steps": one.steps}
            return Done(result, tuple(one.failures))

        asked = TeacherFlags() if flags.random else teacher_flags
        teach_all(jobs, planned, episode, asked, folder / "result.txt", unit="episode", quiet=flags.quiet)
        if flags.random:
            print("Measured: chance, which is the floor; no model was asked.")
        else:
            print(teacher_flags.measured("knows the way and is the ceiling"))
        episodes = {key: jobs.results[key] for key in planned if key in jobs.results}
        _write(folder, f"{measured.name} {name}", episodes)
        judge_episodes(jobs, planned, max_failed=flags.max_failed)


def _write(folder: Path, name: str, episodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Add a line for each episode and one for all of them, as the published stage does."""
    won = sum(episode["won"] for episode in episodes.values())
    mean = sum(episode["reward"] for episode in episodes.values()) / max(len(episodes), 1)
    line = f"{name}: success {won}/{len(episodes)}, mean reward {mean:.3f}"
    told = (
        f"{name} {run}: reward {episode['reward']:g}, {episode['steps']} steps, "
        f"{'success' if episode['won'] else 'failure'}"
        for run, episode in episodes.items()
    )
    for path, lines in ((folder / "result_episode.txt", told), (folder / "result.txt", [line])):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            known = set(file.read().splitlines())  # a run that goes on has its episodes of before
            file.writelines(f"{one}\n" for one in lines if one not in known)
    print(f"{line}\nThat is in {folder / 'result.txt'}, every episode in {folder / 'result_episode.txt'}")


# -- runs -------------------------------------------------------------------------------------------------

PANELS = {"succ": "success rate", "cost": "cost of an episode", "loss": "loss"}


@group("This stage")
class PlotFlags(Output, Overwriting, Compatible):
    window: int = flag(99, "iterations that each point averages over.", at_least=1)


@recorded("reflect plot")
@stage(
    defaults={"output": "visualization"},
    helps={
        "output": "name of the output files; .pdf and .png are appended.",
        "compat": "fixed, or published: the published offsets and means, in which a missing loss counts as 0.",
    },
)
def plot(flags: PlotFlags, /, *runs: str) -> None:
    """Plot success rate, cost and loss of runs, including the runs that they continued, as PDF and PNG.

    Args:
        flags: of this stage.
        runs: folders such as results/003_rl_finetune.
    """
    folders, output = _folders(runs), Path(flags.output).expanduser()
    targets = [output.with_name(output.name + suffix) for suffix in (".pdf", ".png")]
    for target in targets:
        new_file(target, "output", overwrite=flags.overwrite)
    logs = [reflect.logs_of(folder, compat=flags.compat) for folder in folders]
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_package("matplotlib", "plots", needed_for="reflect plot") from error
    names = [folder.resolve().name for folder in folders]
    labels = [run if names.count(name) > 1 else name for run, name in zip(runs, names, strict=True)]
    figure = Figure(figsize=(13, 3.6), dpi=150, layout="constrained")
    for axes, (key, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for label, entries in zip(labels, logs, strict=True):
            iters, values = [entry["iter"] for entry in entries], [entry[key] for entry in entries]
            iters, means = reflect.moving_average(iters, values, window=flags.window, compat=flags.compat)
            known = [float("nan") if mean is None else mean for mean in means]
            axes.plot(iters, known, label=label, linewidth=1.4)
        axes.set_title(title)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    for target in targets:
        tracking.writes(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
        print(f"The picture is in {target}")


def _folders(runs: Sequence[str]) -> list[Path]:
    if not runs:
        raise UsageError("Name at least one run's folder, such as results/003_rl_finetune.")
    for name in runs:
        tracking.reads("runs", name)
    return [Path(name).expanduser() for name in runs]


@group("This stage")
class EnsembleLogsFlags(OutputDir, Overwriting, Compatible):
    pass


@recorded("reflect ensemble_logs")
@stage(
    defaults={"output_dir": "."},
    helps={"compat": "fixed, or published: the published offsets, with which runs may overlap."},
)
def ensemble_logs(flags: EnsembleLogsFlags, /, *runs: str) -> None:
    """Write RUN.json for each run: all its iterations, preceded by those of the runs that it continued.

    If a run pools n trainer calls (--gradient_accumulation_steps), each of its iterations counts 1/n.

    Args:
        flags: of this stage.
        runs: folders such as results/003_rl_finetune.
    """
    for folder in _folders(runs):
        target = Path(flags.output_dir).expanduser() / f"{folder.resolve().name}.json"
        new_file(target, "output_dir", overwrite=flags.overwrite)
        logs = reflect.logs_of(folder, compat=flags.compat)
        tracking.writes(target)
        replace_file(target, [json.dumps(logs).encode()])
        print(f"{len(logs)} iterations are in {target}")
