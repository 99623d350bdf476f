"""The whole SWEET-RL pipeline on the embedded defaults, every stage by its command."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, listed
from sweet_rl.flags.common import Seeded, WorldName
from sweet_rl.flags.models import Agent
from sweet_rl.studies.flags import HELPS, StudyFlags
from sweet_rl.studies.results import Results
from sweet_rl.studies.sweet.settings import ALL_WAYS, MAIN_WAYS


@dataclass(frozen=True, kw_only=True)
class DemoFlags(StudyFlags, Agent, WorldName, Seeded):
    """The study."""

    num_train_tasks: int = flag(
        144,
        "tasks that the agent talks about, four times each, to learn from; a critic that learned from fewer than 20 "
        "tells too few turns apart for a policy to learn from.",
        at_least=20,
        aliases=("train_tasks",),
    )
    num_test_tasks: int = flag(
        200, "tasks that every method is measured on.", at_least=1, aliases=("test_tasks",)
    )
    trades: int = flag(
        10,
        "trades of the world trades: the more, the less outcomes show.",
        at_least=1,
        at_most=40,
        only=Only("world", ("trades",), "--world trades"),
    )
    ways: str = flag(
        ",".join(MAIN_WAYS),
        f"forms of SWEET-RL, with commas between them, or all: {', '.join(ALL_WAYS)}.",
        shown="all",
    )
    best_of: str = flag(
        "",
        "numbers of turns, from 2, that critics choose from at test time, with commas between them, like 2,4,8; "
        "empty: this part is left out.",
        shown="all",
    )
    page_tasks: int = flag(4, "web pages that the designers draw; 0 leaves this part out.", at_least=0)
    dev: bool = flag(False, "measure on mini:dev instead of mini:test, to choose settings.")

    def check_together(self) -> None:
        """Whether the ways and the numbers of turns can be read."""
        super().check_together()
        if unknown := set(self.named_ways()) - set(ALL_WAYS):
            raise UsageError(f"--ways knows {', '.join(ALL_WAYS)}, and not {', '.join(sorted(unknown))}.")
        if "sweet" not in self.named_ways():
            raise UsageError(f"--ways {self.ways} has to name sweet: the others are held against it.")
        self.numbers_of_turns()

    def named_ways(self) -> tuple[str, ...]:
        """Each by its name."""
        return ALL_WAYS if self.ways == "all" else tuple(listed(self.ways))

    def numbers_of_turns(self) -> tuple[int, ...]:
        """Of `best_of`."""
        for part in listed(self.best_of):
            if not (part.isascii() and part.isdigit() and int(part) > 1):
                raise UsageError(f"--best_of {self.best_of!r}: {part!r} is no whole number of at least 2.")
        return tuple(sorted(set(map(int, listed(self.best_of)))))


@recorded("demo", reads=("agent",))
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo", "agent": "embedded", "world": "trades"},
    helps=HELPS
    | {
        "agent": "the agent to begin with: embedded, or a folder of sweet-rl make_embedded_agent.",
        "world": "world of the mini benchmark: trades, usual or easy.",
        "seed": "decides about tasks, dialogues and trainings.",
    },
    narrow={
        "agent": {"choices": ()},
        "world": {"choices": ("trades", "usual", "easy"), "aliases": ()},
    },
    facets=lambda flags: {"world": {flags["world"]}},
)
def demo(flags: DemoFlags, /) -> None:
    """Run SWEET-RL and its rivals from nothing: dialogues, critic, candidates, pairs, policies, report.

    Needs no GPU, no download and no key; takes less than four minutes on two cores. The embedded agent talks to
    the scripted human over HTTP, its dialogues are graded in the sandbox, and every method learns from the
    same ones: rejection fine-tuning, DPO on whole dialogues, and SWEET-RL in three forms. Where a browser is
    installed, designers without a model draw a few web pages (Frontend Design). Each command is printed as a
    person would type it. It ends with a table and a page to look at. An interrupted demo resumes where it
    stopped.
    """
    from dataclasses import replace

    from sweet_rl.pipelines.steps import in_rounds
    from sweet_rl.studies.outcome import prepared, run_study
    from sweet_rl.studies.sweet.pages import why_no_pages
    from sweet_rl.studies.sweet.recipe import rounds
    from sweet_rl.studies.sweet.results import results
    from sweet_rl.studies.sweet.settings import Study
    from sweet_rl.users.server_process import start_server

    folder = prepared(flags)
    with start_server() as server:
        print(f"The scripted human answers at {server.base_url}\n", flush=True)
        study = Study(
            folder,
            agent=flags.agent,
            human=server.base_url,
            seed=flags.seed,
            world=f"trades={flags.trades}" if flags.world == "trades" else flags.world,
            ways=flags.named_ways(),
            best_of=flags.numbers_of_turns(),
            train_tasks=flags.num_train_tasks,
            test_split="dev" if flags.dev else "test",
            test_tasks=flags.num_test_tasks,
            page_tasks=flags.page_tasks,
        )
        if flags.page_tasks and (lacking := why_no_pages(study)):
            print(f"The part with web pages is left out. {lacking}\n", flush=True)
            study = replace(study, page_tasks=0)
        run_study(
            flags,
            in_rounds(rounds(study), folder),
            lambda seconds: _beside_committed(results(study, seconds)),
        )
    if study.page_tasks:
        print(
            "Look at the pages with: sweet-rl visualize_design_dialogue_histories "
            f"{folder / 'pages.improver.jsonl'} --metrics --render_cache {folder / 'pages.rendered'}"
        )
    print(f"Read dialogues with: sweet-rl visualize_dialogue_histories {folder / 'sweet.test.jsonl'}")


def _beside_committed(results: Results) -> Results:
    """The results after the full study that the package has."""
    from sweet_rl.studies.brought_along import beside_study
    from sweet_rl.studies.sweet.full_study import COMMITTED, read_full_study

    full = read_full_study(COMMITTED)
    return beside_study(results, full.comparisons(), full.made()) if full else results
