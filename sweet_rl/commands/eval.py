"""A number that can be trusted, in one command: simulate, grade, report."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import judge_failed, words_of
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.commands import simulate_interactions as simulation
from sweet_rl.commands.evaluate import grading_by
from sweet_rl.errors import ServiceError, UsageError, no_such
from sweet_rl.evaluation.episodes import Episodes, read_episodes
from sweet_rl.evaluation.report import Line, Report, lines_of, report_of
from sweet_rl.flags import REQUIRED, Only, flag, flags_of, group, listed
from sweet_rl.flags.shared import OutputDir, Regrade, Tasks
from sweet_rl.openai_client import shown
from sweet_rl.players import ANSWERED, HumanFlags, PlayerFlags, PromptedFlags
from sweet_rl.players.cast import Cast
from sweet_rl.policies import BASE_URL_VAR, engine_and_name
from sweet_rl.records import read_rows, replace_file
from sweet_rl.runs import has_failed
from sweet_rl.runs.facts import now
from sweet_rl.statistics import Estimate
from sweet_rl.types import Json, Task, digest
from sweet_rl.version import __version__
from sweet_rl.worlds import Options, agents_with, first_for, world_of


@group("What is evaluated")
class EvalFlags(simulation.PlayingFlags, Tasks, OutputDir, Regrade):
    model: str = flag(
        REQUIRED,
        "agent to evaluate: openai/NAME (a model behind an OpenAI-compatible server), vllm/PATH (starts a "
        "vLLM server), a folder or a hub name (runs in process), one of the world's scripted agents, or "
        "module:ATTRIBUTE.",
        aliases=("agent_model",),
    )
    retries: int = flag(
        2,
        "times that episodes are played again if they failed because a service could not be used.",
        at_least=0,
        shown="all",
    )
    bounds: str = flag(
        "none",
        "scripted agents that play the same tasks for comparison: none, world (the world's ceiling and floor), or names separated by commas.",
    )

    def check_together(self) -> None:
        """Whether the folder can be one."""
        if self.output_dir and Path(self.output_dir).is_file():
            raise UsageError(f"--output_dir {self.output_dir!r} is a file; name a folder.")


def player_flags(flags: EvalFlags, agent: PromptedFlags) -> PlayerFlags:
    """The agent as `simulate_interactions` has it."""
    engine, name = engine_and_name(flags.model)
    url = agent.agent_base_url
    if engine == "openai" and url is None:
        url = os.environ.get(BASE_URL_VAR) or None
        if url is None:
            raise UsageError(
                f"--model {flags.model} is behind a server: name it with --agent_base_url, such as "
                f"http://127.0.0.1:8001/v1, or in the environment variable {BASE_URL_VAR}."
            )
    values = vars(agent) | {"agent": engine, "agent_model": name, "agent_base_url": url}
    return PlayerFlags(**values)


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What the flags are about to put together, as in `simulate_interactions`."""
    chosen = built(EvalFlags, flags)
    player = player_flags(chosen, built(PromptedFlags, flags))
    human = built(HumanFlags, flags).or_scripted(world_of(chosen.world))
    facets: Facets = simulation.simulate_interactions.facets({**flags, **vars(player), **vars(human)})  # type: ignore[attr-defined]
    return facets


GRADING, REPORT, PAGE = "grading.json", "report.json", "report.html"
"""Files of a folder of `eval`, beside its episodes."""


@recorded(
    "eval",
    reads=("tasks", "model", "tokenizer", "agent_prompt_path", "env_model", "user_prompt_path", "place"),
    prices=True,
)
@stage(
    defaults={"world": first_for("dialogue"), "agent_api": "chat", "output_dir": ""},
    helps={
        "agent_api": "API of the server of openai/NAME: chat, or completions, if the server offers it and prompts must be exact.",
        "agent_base_url": f"base URL(s) of the server of openai/NAME; default: the value of {BASE_URL_VAR}.",
        "env_model": "who plays the human, or answers in question games: scripted (no model; the default "
        "without a server), auto (the first model that the server offers), or a model's name on "
        "the server.",
        "output_dir": "folder for episodes, grades and report; default "
        "evals/WORLD-TASKS-AGENT-HUMAN-SETTINGS, where SETTINGS is a digest. Running the same "
        "command again resumes it.",
        "to_continue": "of no effect: the same command resumes.",
        "tasks": "tasks: one of the world's lists, or a file; default: the world's evaluation tasks.",
    },
    narrow={
        "agent_base_url": {"aliases": ("base_url",)},
        "to_continue": {"shown": "never"},
        "max_failed": {"shown": "all"},
    },
    only=ANSWERED
    | {
        "unsafe_no_sandbox": None,
        "agent_base_url": Only("agent", ("openai",), "--model openai/NAME"),
        "skill": Only("agent_model", lambda: agents_with("skill"), "scripted agents that take it"),
        "num_questions": Only(
            "agent_model", lambda: agents_with("num_questions"), "scripted agents that take it"
        ),
    },
    facets=_facets,
    options=simulation.WORLD_OPTIONS,
)
def eval(flags: EvalFlags, agent: PromptedFlags, human: HumanFlags, options: Options, /) -> None:
    """Evaluate an agent: play the tasks, grade, report. Run the same command again to resume.

    Episodes that failed because a service could not be used are played again; those that still fail count in
    no number. The report has success and the world's own measures, pass@k and pass^k over repeats, with
    standard errors clustered by task; why episodes did not succeed; turns and questions; tokens and money,
    separately for agent and human; the human and the grader used. It is printed, and saved as report.json and
    as report.html, a page to share. `sweet-rl compare` and the viewers read episodes.jsonl beside it.

    The smallest run needs no model and no server:
    sweet-rl eval --model expert --world code --tasks mini:test --num_tasks 50
    A model behind a server, asked four times for each task:
    sweet-rl eval --model openai/gpt-4o-mini --base_url https://host/v1 --tasks tasks.jsonl --repeats 4 --prices prices.toml
    """
    from sweet_rl.evaluation.comparison import EPISODES
    from sweet_rl.evaluation.page import report_page

    tracking.logs_to(flags.destination())
    world = world_of(flags.world)
    player, human = player_flags(flags, agent), human.or_scripted(world)
    cast = Cast(world=world, options=options, agent=player, human=human, seed=flags.seed)
    source = flags.tasks or world.tasks.test
    tasks = simulation.tasks_of(source, flags.num_tasks, flags.sample_ids, world)
    offered = {name: value for name, value in vars(cast.options).items() if name != "compat"}
    grade = grading_by(
        world,
        {"k": flags.repeats, "overwrite": True} | ({"regrade": True} if flags.regrade else {}),
        offered | {"unsafe_no_sandbox": cast.agent.unsafe_no_sandbox, "quiet": flags.quiet},
    )
    folder = Path(flags.output_dir or Path("evals", _folder_name(flags, cast, source)))
    repair = f"Use what the first run in {str(folder)!r} had, or name another --output_dir."

    def playing(path: Path, *, anew: bool = True) -> simulation.SimulationFlags:
        """What plays in a file; `anew` does with it what the flags say of what it holds."""
        overwrite = flags.overwrite and anew
        shared = {one.name: getattr(flags, one.name) for one in flags_of(simulation.PlayingFlags)}
        kept = {"to_continue": path.exists() and not overwrite, "overwrite": overwrite, "max_failed": 1.0}
        return simulation.SimulationFlags(input_path=source, output_path=str(path), **shared | kept)

    def graded(one: Cast, path: Path, report: Path, name: str = "") -> dict[str, Json]:
        """Play what is missing, and what failed again, so often as is allowed; then what the world's stage reports."""
        for left in range(flags.retries, -1, -1):
            wanted = playing(path, anew=left == flags.retries)
            try:
                failed = simulation.simulate(
                    wanted, one, tasks, folder=folder, again="", name=name, repair=repair
                ).missing
            except ServiceError as error:
                if left == flags.retries:
                    raise
                print(f"They are left as they are: {error}")  # all others are there, and are reported
                break
            if not failed or not left:
                break
            print(f"The {failed} that failed are played again.")
        with redirect_stdout(io.StringIO()):  # its table is part of our report
            grade(str(path), report_path=str(report))
        found: dict[str, Json] = json.loads(report.read_bytes())
        return found

    agents, bounds = list(world.agents), listed(flags.bounds)
    if flags.bounds in {"none", "world"}:
        ends = world.scores.ceiling_and_floor or dict.fromkeys((*agents[:1], *agents[-1:]))
        bounds = list(ends) if flags.bounds == "world" else []
    for name in bounds:
        if name not in agents:
            raise no_such(f"scripted agent of {world.name} for --bounds", name, agents)
    path, files = folder / EPISODES, {}
    for name in bounds:
        scripted = replace(cast.agent, agent="scripted", agent_model=name)
        files[folder / "bounds" / f"{name}.jsonl"] = replace(cast, agent=scripted)
    for file, one in ({path: cast} | files).items():  # what is refused is refused before anything is written
        with simulation.planned(playing(file), one, tasks, repair=repair):
            pass
    known = _floors(graded(cast, path, folder / GRADING))
    found = read_episodes(path, world)
    for file, one in files.items():
        print(f"{file.stem}:")
        graded(one, file, file.with_name(f"{file.stem}.{GRADING}"), file.stem)
        lines = lines_of(read_episodes(file, world))
        known[file.stem] = [line for line in lines if not line.name.startswith("pass")][:2]
    report = _report(flags, cast, tasks, found, known)
    tracking.logs(report.played, report.means())
    replace_file(folder / REPORT, [json.dumps(report.to_json(), indent=1).encode() + b"\n"])
    page = report_page(
        report, found, command=tracking.current().command or "", made=now()[:10], folder=folder
    )
    replace_file(folder / PAGE, [page.encode("utf-8", "replace")])
    print(
        f"\n{report}\n\nThe same is in {folder / REPORT} and, to be read and sent, in {folder / PAGE}; "
        f"all dialogues: sweet-rl view {folder}"
    )
    first = (words_of(row["error"]) for _, row in read_rows(path) if has_failed(row) and row.get("error"))
    judge_failed(
        report.failed,
        report.played,
        next(first, "unknown") if report.failed else "",
        noun="episodes",
        kept="The same command plays them again.",
        most=flags.max_failed,
    )


def _folder_name(flags: EvalFlags, cast: Cast, source: str) -> str:
    """World, tasks, agent, human, and a digest of all else that makes it another evaluation."""
    servers = [cast.agent.agent_base_url, *(cast.human.urls if cast.human_served else [])]
    known = {"servers": [shown(str(url)) for url in servers], "tasks": source, "ids": flags.sample_ids}
    answers = [] if cast.world.user.by == "world" else [cast.human.env_model]
    tasks = Path(source).name.removesuffix(".jsonl") if flags.tasks else "test"
    words = (cast.world.name, tasks, cast.agent.agent_model, *answers)
    last = (re.sub(r"[^\w.=]+", "_", word.rstrip("/").rpartition("/")[2]).strip("_") for word in words)
    return "-".join((*last, digest(cast.settings() | known, 6)))


def _report(
    flags: EvalFlags, cast: Cast, tasks: Sequence[Task], found: Episodes, bounds: Mapping[str, Sequence[Line]]
) -> Report:
    world, listener, source = cast.world, tracking.current(), flags.tasks or cast.world.tasks.test
    provenance = json.loads(max(found.provenances, key=lambda said: found.provenances[said]))
    repeats = f" x {flags.repeats}" if flags.repeats > 1 else ""
    changes = listener.server_changes()
    killed = listener.killed()
    human: dict[str, Json] = {}  # who answered: the model, its prompt and its version
    if world.user.by != "world":
        human = {"model": provenance["env_model"] or cast.human.env_model, "prompt": ""}
        human |= {"version": f"sweet_rl {provenance['sweet_rl']}"}
        if cast.human_served:
            human["prompt"] = cast.human.user_prompt_path or world.user.prompt or ""
            human["prompt_digest"] = cast.human_settings().get("user_prompt", "")
            human["version"] = shown(f"as {', '.join(cast.human.urls)} has it")
    return report_of(
        found,
        f"{cast.agent.agent_model} in {world.name}, {Path(source).name}{repeats}",
        bounds=bounds,
        about={
            "made": {"date": now(), "sweet_rl": __version__, "run": tracking.current().id or ""},
            "played": {
                "world": world.name,
                "tasks": source,
                "tasks_digest": digest([dict(task.row) for task in tasks]),
                "repeats": flags.repeats,
                "seed": flags.seed,
                "rules": world.settings(cast.options),
            },
            "agent": cast.agent_settings()
            | {"engine": cast.engine}
            | ({"server_changes": changes} if changes else {}),
            "human": human,
            "grader": json.loads(max(found.graders, key=found.graders.__getitem__, default="{}")),
        },
        usage=listener.usage(),
        cost=listener.cost(),
        problems=[
            f"{'a session was' if killed == 1 else f'{killed} sessions were'} killed: what models used in the last "
            "seconds before is in no count of tokens and dollars"
        ]
        if killed
        else [],
    )


def _floors(grading: Mapping[str, Json]) -> dict[str, list[Line]]:
    """What grading knows of floors without playing: a constant answer, a black picture, a blank page."""
    floors = (grading.get("rewards") or {}).get("floors") or {}
    tasks = grading["tasks"]
    known = {
        f"a {name}": [Line("similarity", "share", Estimate(mean), tasks, tasks)]
        for name, mean in floors.items()
    }
    constant = (grading.get("columns") or {}).get("constant answer")
    if constant and (rows := constant["rows"]):
        columns = {"success": "success", "tests passed": "tests_passed"}.items()
        shares = [Line(name, "share", Estimate(**constant[field]), rows, rows) for name, field in columns]
        known["a constant answer"] = shares
    return known
