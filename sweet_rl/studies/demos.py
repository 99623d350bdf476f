"""The demos: each of the three systems from nothing to a report page, by the commands that a person would type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, group, listed
from sweet_rl.flags.models import Agent, Iterations, Skill
from sweet_rl.flags.shared import Jobs, OutputDir, Overwriting, Seeded, WorldName
from sweet_rl.studies.reflect.worlds import MAIN_METHODS, METHODS, USUAL, WORLDS
from sweet_rl.studies.sweet.settings import ALL_WAYS, MAIN_WAYS, Study

HELPS = {  # What some flags mean in the demos
    "overwrite": "throw away what an earlier demo left in the folder.",
    "jobs": "runs at once, each with one thread.",
}


@group("The study")
class StudyFlags(OutputDir, Jobs, Overwriting):
    pass


@group("The study")
class DemoFlags(StudyFlags, Agent, WorldName, Seeded):
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
        if unknown := set(self.named_ways()) - set(ALL_WAYS):
            raise UsageError(f"--ways knows {', '.join(ALL_WAYS)}, and not {', '.join(sorted(unknown))}.")
        if "sweet" not in self.named_ways():
            raise UsageError(f"--ways {self.ways} has to name sweet: the others are held against it.")
        self.numbers_of_turns()

    def named_ways(self) -> tuple[str, ...]:
        return ALL_WAYS if self.ways == "all" else tuple(listed(self.ways))

    def numbers_of_turns(self) -> tuple[int, ...]:
        for part in listed(self.best_of):
            if not (part.isascii() and part.isdigit() and int(part) > 1):
                raise UsageError(f"--best_of {self.best_of!r}: {part!r} is no whole number of at least 2.")
        return tuple(sorted(set(map(int, listed(self.best_of)))))


@recorded("demo", reads=("agent",))
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo", "agent": "embedded", "world": "trades"},
    helps={
        "overwrite": HELPS["overwrite"],
        "agent": "the agent to begin with: embedded, or a folder of sweet-rl make_embedded_agent.",
        "world": "world of the mini benchmark: trades, usual or easy.",
        "seed": "decides about tasks, dialogues and trainings.",
    },
    narrow={"agent": {"choices": ()}, "world": {"choices": ("trades", "usual", "easy"), "aliases": ()}},
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
    from sweet_rl.studies.runner import prepared, run_study
    from sweet_rl.studies.sweet.recipe import why_no_pages
    from sweet_rl.users.server import start_server

    folder = prepared(flags.output_dir, overwrite=flags.overwrite)
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
        run_study("sweet", study, flags.jobs)
    if study.page_tasks:
        print(
            "Look at the pages with: sweet-rl visualize_design_dialogue_histories "
            f"{folder / 'pages.improver.jsonl'} --metrics --render_cache {folder / 'pages.rendered'}"
        )
    print(f"Read dialogues with: sweet-rl visualize_dialogue_histories {folder / 'sweet.test.jsonl'}")


@group("The study")
class OnlineFlags(StudyFlags, Iterations):
    seeds: int = flag(3, "models to begin with, and runs of every method.", at_least=1)
    first_seed: int = flag(0, "the number of the first; settings were chosen with 100 to 102.", at_least=0)
    ablations: bool = flag(False, "the study's own method with parts left out, too.")
    test_games: int | None = flag(None, "games that every policy is measured on.", at_least=1)


def _given(flags: OnlineFlags, *names: str) -> dict[str, Any]:
    numbers = {name: getattr(flags, name) for name in ("seeds", "first_seed", *names)}
    return {name: number for name, number in numbers.items() if number is not None}


@group("The study")
class ArcherDemoFlags(OnlineFlags, Skill):
    teacher_games: int = flag(160, "of the scripted player, for each word, to imitate.", at_least=1)


@recorded("demo_archer")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_archer", "seeds": 1, "skill": 0.3, "test_games": 20},
    helps=HELPS
    | {
        "seeds": "each with a demonstrator's games, a policy and test games of its own; a claim needs several.",
        "iterations": "of every run; default that of configs/archer/demo_20q.yaml.",
        "skill": "of the demonstrator: the share of games in which it asks before it names a word, 0 to 1.",
        "test_games": "for each word, to measure every policy on.",
        "ablations": "also ArCHer with one critic, without a delay of its policy and with an exact critic; and Online CHAI, which takes longest.",
    },
    only={"skill": None},
)
def demo_archer(flags: ArcherDemoFlags, /) -> None:
    """Run ArCHer and its rivals from nothing: Twenty Questions about sixteen words, tiny models.

    Needs no GPU, no download and no key; one seed takes minutes on two cores. A scripted player that mostly
    guesses plays against the embedded oracle; a tiny GPT-2 learns to imitate it, and ArCHer, filtered BC,
    PPO and REINFORCE go on from there by their own games; with --ablations Online CHAI does, too.
    Each command is printed as a person would type it. It ends with a table and a page: return against games,
    between the best play and naming the words in order, and which published orderings hold at this size. An
    interrupted demo resumes where it stopped.
    """
    from sweet_rl.studies.archer.recipe import ABLATIONS, METHODS, OnlineStudy
    from sweet_rl.studies.runner import prepared, run_study

    folder = prepared(flags.output_dir, overwrite=flags.overwrite)
    methods = {name: own for name, own in METHODS.items() if flags.ablations or name not in ABLATIONS}
    study = OnlineStudy(
        folder, methods=methods, **_given(flags, "iterations", "skill", "test_games", "teacher_games")
    )
    run_study("archer", study, flags.jobs)
    played = study.games("archer", study.first_seed, greedy=True)
    print(f"Read games with: sweet-rl visualize_dialogue_histories {played}")


@group("The study")
class ReflectDemoFlags(OnlineFlags):
    sft_updates: int | None = flag(
        None,
        "of every fine-tuning; default that of the study, as for iterations, records, repositories and test_games.",
        at_least=1,
    )
    records: int | None = flag(
        None, "states of the taxi, and of households, that the teacher reflects on.", at_least=1
    )
    repositories: int | None = flag(None, "to explore.", at_least=1)
    worlds: str = flag(
        ",".join(USUAL), f"of {', '.join(WORLDS)}, with commas between; alfworld needs its engine's packages."
    )


@recorded("demo_reflect")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_reflect", "seeds": 1},
    helps=HELPS
    | {
        "seeds": "each with data, models and test games of its own; a claim needs several.",
        "iterations": "of every online run.",
        "test_games": "of each of the taxi's levels, to measure every policy on.",
        "ablations": "also Reflect-RL without a curriculum (taxi) and without wrong ways in the texts (AutoExplore), and as many updates without reflections.",
    },
)
def demo_reflect(flags: ReflectDemoFlags, /) -> None:
    """Run Reflect-RL and what it is compared with from nothing: DangerousTaxi, AutoExplore, ALFWorld; tiny models.

    Needs no GPU, no download and no key; one world and one seed take minutes on two cores. A teacher that knows the
    way reflects on games. For every seed tiny Llamas learn from that and online: fine-tuning only, online learning
    only, both without and with reflections. Each command is printed as a
    person would type it. It ends with a table and a page: success against episodes, and which published
    orderings hold at this size, beside a planner, chance and a linear policy. An interrupted demo resumes where it stopped.
    """
    from sweet_rl.studies.reflect.recipe import ReflectStudy
    from sweet_rl.studies.runner import prepared, run_study

    given = _given(flags, "sft_updates", "iterations", "records", "repositories", "test_games")
    chosen = tuple(dict.fromkeys(listed(flags.worlds)))
    if not chosen or not set(chosen) <= set(WORLDS):
        raise UsageError(f"--worlds must be of {', '.join(WORLDS)}, got {flags.worlds!r}.")
    methods = METHODS if flags.ablations else MAIN_METHODS
    folder = prepared(flags.output_dir, overwrite=flags.overwrite)
    run_study("reflect", ReflectStudy(folder, worlds=chosen, methods=methods, **given), flags.jobs)
