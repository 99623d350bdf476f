"""The work of `eval` after its flags are checked: simulate as often as it takes, grade, report."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.cli.progress import judge_failed, words_of
from sweet_rl.commands import simulation
from sweet_rl.commands.agent_flags import Player, PlayerFlags
from sweet_rl.commands.evaluate import grading_by
from sweet_rl.commands.humans import Human, HumanFlags
from sweet_rl.commands.simulate_interactions import SimulationFlags
from sweet_rl.errors import ServiceError, no_such
from sweet_rl.evaluation.comparison import EPISODES
from sweet_rl.evaluation.episodes import Episodes, read_episodes
from sweet_rl.evaluation.page import report_page
from sweet_rl.evaluation.report import Line, Report, lines_of, report_of
from sweet_rl.flags import listed
from sweet_rl.openai_client import shown
from sweet_rl.records import read_rows, replace_file
from sweet_rl.runs import has_failed
from sweet_rl.runs.facts import now
from sweet_rl.statistics import Estimate
from sweet_rl.types import Json, Task, digest
from sweet_rl.version import __version__
from sweet_rl.worlds import Options, World, world_of

if TYPE_CHECKING:
    from sweet_rl.commands.eval import EvalFlags

GRADING, REPORT, PAGE = "grading.json", "report.json", "report.html"
"""Files of a folder of `eval`, beside its episodes."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is played, and by which rules; several agents may play it."""

    flags: EvalFlags
    world: World
    options: Options
    human: Human
    folder: Path
    source: str
    tasks: tuple[Task, ...]
    grading: Callable[..., None]

    def player(self, player: PlayerFlags) -> Player:
        """The agent in this world."""
        if player.agent_model == "auto" and self.world.agents:
            player = replace(player, agent_model=self.world.agents[0])
        return Player(
            flags=player,
            world=self.world,
            options=self.options,
            scripted=player,
            prompt_path=player.agent_prompt_path,
            seed=self.flags.seed,
        )

    def play(self, player: Player, path: Path, name: str = "") -> None:
        """Play what is missing in a file, and episodes that failed again, so often as is allowed."""
        for left in range(self.flags.retries, -1, -1):
            wanted, parts = self.simulated(player, path, name, anew=left == self.flags.retries)
            try:
                failed = simulation.run(wanted, parts, self.tasks, again="")
            except ServiceError as error:
                if left == self.flags.retries:
                    raise
                print(f"They are left as they are: {error}")  # all others are there, and are reported
                return
            if not failed or not left:
                return
            print(f"The {failed} that failed are played again.")

    def simulated(
        self, player: Player, path: Path, name: str = "", *, anew: bool = True
    ) -> tuple[SimulationFlags, simulation.Parts]:
        """What plays in a file; `anew` does with it what the flags say of what it holds."""
        flags = self.flags
        overwrite = flags.overwrite and anew
        wanted = SimulationFlags(
            input_path=self.source,
            output_path=str(path),
            world=flags.world,
            repeats=flags.repeats,
            batch_size=flags.batch_size,
            to_continue=path.exists() and not overwrite,
            overwrite=overwrite,
            force_continue=flags.force_continue,
            max_failed=1.0,
            seed=flags.seed,
            quiet=flags.quiet,
        )
        repair = f"Use what the first run in {str(self.folder)!r} had, or name another --output_dir."
        parts = simulation.Parts(self.world, self.options, player, self.human, name, self.folder, repair)
        return wanted, parts

    def grade(self, path: Path, report: Path) -> dict[str, Json]:
        """Grade what has no grades; what the world's stage reports."""
        with redirect_stdout(io.StringIO()):  # its table is part of our report
            self.grading(str(path), report_path=str(report))
        found: dict[str, Json] = json.loads(report.read_bytes())
        return found

    def bound_names(self) -> list[str]:
        """Scripted agents that are to play the same tasks."""
        agents, wanted = self.world.agents, self.flags.bounds
        if wanted == "none":
            return []
        if wanted == "world":
            return list(self.world.bounds or dict.fromkeys((*agents[:1], *agents[-1:])))
        names = listed(wanted)
        for name in names:
            if name not in agents:
                raise no_such(f"scripted agent of {self.world.name} for --bounds", name, agents)
        return names

    def bound(self, name: str, agent: Player) -> list[Line]:
        """The first numbers of a scripted agent that plays the same tasks."""
        path = self.folder / "bounds" / f"{name}.jsonl"
        print(f"{name}:")
        self.play(agent, path, name)
        self.grade(path, path.with_name(f"{name}.{GRADING}"))
        lines = lines_of(read_episodes(path, self.world))
        return [line for line in lines if not line.name.startswith("pass")][:2]


def run(flags: EvalFlags, agent: PlayerFlags, human: HumanFlags, options: Options) -> None:
    """Simulate, grade, report."""
    world = world_of(flags.world)
    source = flags.tasks or world.test_tasks
    tasks = simulation.tasks_of(source, flags.num_tasks, flags.sample_ids, world)
    grading = grading_by(
        world,
        {"k": flags.repeats, "overwrite": True} | ({"regrade": True} if flags.regrade else {}),
        {name: value for name, value in vars(options).items() if name != "compat"}
        | {"unsafe_no_sandbox": agent.unsafe_no_sandbox, "quiet": flags.quiet},
    )
    answers, given = Human(human, world, options), Path(flags.output_dir or "evals")
    this = Evaluation(flags, world, options, answers, given, source, tuple(tasks), grading)
    player = this.player(agent)
    if not flags.output_dir:
        this = replace(this, folder=given / _folder_name(this, player))
    folder, path = this.folder, this.folder / EPISODES
    bounds = {
        name: this.player(replace(agent, agent="scripted", agent_model=name)) for name in this.bound_names()
    }
    files = {path: player} | {folder / "bounds" / f"{name}.jsonl": one for name, one in bounds.items()}
    for file, one in files.items():  # what is refused is refused before anything is written, and asked
        with simulation.planned(*this.simulated(one, file), this.tasks):
            pass
    this.play(player, path)
    graded = this.grade(path, folder / GRADING)
    found = read_episodes(path, world)
    known = dict(_floors(graded)) | {name: this.bound(name, one) for name, one in bounds.items()}
    report = _report(this, player, found, known)
    tracking.logs(report.played, report.means())
    replace_file(folder / REPORT, [json.dumps(report.to_json(), indent=1).encode() + b"\n"])
    page = report_page(report, found, command=tracking.command() or "", made=now()[:10], folder=folder)
    replace_file(folder / PAGE, [page.encode("utf-8", "replace")])
    print(
        f"\n{report.to_text()}\n\nThe same is in {folder / REPORT} and, to be read and sent, in {folder / PAGE}; "
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


def _folder_name(this: Evaluation, player: Player) -> str:
    """World, tasks, agent, human, and a digest of all else that makes it another evaluation."""
    human, agent = this.human.flags, player.flags
    servers = [agent.agent_base_url, *([] if this.human.in_process else this.human.flags.urls)]
    settings = simulation.Parts(this.world, this.options, player, this.human).settings(this.flags.seed)
    known = {
        "servers": [shown(str(url)) for url in servers],
        "tasks": this.source,
        "ids": this.flags.sample_ids,
    }
    answers = [] if this.world.answered_by == "world" else [human.env_model]
    source = Path(this.source).name.removesuffix(".jsonl") if this.flags.tasks else "test"
    words = (this.world.name, source, player.model, *answers)
    last = (re.sub(r"[^\w.=]+", "_", word.rstrip("/").rpartition("/")[2]).strip("_") for word in words)
    return "-".join((*last, digest(settings | known, 6)))


def _report(
    this: Evaluation, player: Player, found: Episodes, bounds: Mapping[str, Sequence[Line]]
) -> Report:
    flags, listener = this.flags, tracking.current()
    provenance = json.loads(max(found.provenances, key=lambda said: found.provenances[said]))
    repeats = f" x {flags.repeats}" if flags.repeats > 1 else ""
    changes = [] if listener is None else listener.server_changes()
    changed = {"server_changes": changes} if changes else {}
    return report_of(
        found,
        f"{player.model} in {this.world.name}, {Path(this.source).name}{repeats}",
        bounds=bounds,
        about={
            "made": {"date": now(), "sweet_rl": __version__, "run": tracking.run_id() or ""},
            "played": {
                "world": this.world.name,
                "tasks": this.source,
                "tasks_digest": digest([dict(task.row) for task in this.tasks]),
                "repeats": flags.repeats,
                "seed": flags.seed,
                "rules": this.world.settings(this.options),
            },
            "agent": player.settings() | {"engine": player.engine()} | changed,
            "human": _human(this, provenance),
            "grader": {}
            if not found.graders
            else json.loads(max(found.graders, key=found.graders.__getitem__)),
        },
        usage=None if listener is None else listener.usage(),
        cost=None if listener is None else listener.cost(),
        problems=list(_uncounted(0 if listener is None else listener.killed())),
    )


def _uncounted(killed: int) -> Iterator[str]:
    if killed:
        sessions = "a session was" if killed == 1 else f"{killed} sessions were"
        yield f"{sessions} killed: what models used in the last seconds before is in no count of tokens and dollars"


def _human(this: Evaluation, provenance: Mapping[str, Json]) -> dict[str, Json]:
    """Who answered: the model, its prompt and its version."""
    if this.world.answered_by == "world":
        return {}
    human = this.human
    known: dict[str, Json] = {"model": provenance["env_model"] or human.flags.env_model}
    if human.in_process:
        return known | {"prompt": "", "version": f"sweet_rl {provenance['sweet_rl']}"}
    prompt = human.flags.user_prompt_path or this.world.user_prompt or ""
    return known | {
        "prompt": prompt,
        "prompt_digest": human.settings().get("user_prompt", ""),
        "version": shown(f"as {', '.join(human.flags.urls)} has it"),
    }


def _floors(grading: Mapping[str, Json]) -> Iterator[tuple[str, list[Line]]]:
    """What grading knows of floors without playing: a constant answer, a black picture, a blank page."""
    constant = (grading.get("columns") or {}).get("constant answer")
    if constant and (rows := constant["rows"]):
        names = {"success": "success", "tests passed": "tests_passed"}
        yield (
            "a constant answer",
            [Line(name, "share", Estimate(**constant[field]), rows, rows) for name, field in names.items()],
        )
    for name, mean in ((grading.get("rewards") or {}).get("floors") or {}).items():
        yield f"a {name}", [Line("similarity", "share", Estimate(mean), grading["tasks"], grading["tasks"])]
