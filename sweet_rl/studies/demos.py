"""The demos: each of the three systems from nothing to a report page, by the commands that a person would type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sweet_rl.chat import EMBEDDED
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, group, listed
from sweet_rl.flags.models import Agent, Iterations, NoSandbox, Skill
from sweet_rl.flags.shared import Jobs, OutputDir, Overwriting, Seeded, WorldName
from sweet_rl.studies.reflect.worlds import MAIN_METHODS, METHODS, USUAL, WORLDS
from sweet_rl.studies.sweet.settings import ALL_WAYS, MAIN_WAYS, REAL_WAYS, Study, begun_with, is_pretrained

HELPS = {  # What some flags mean in the demos
    "overwrite": "discard what an earlier demo left in the folder.",
    "jobs": "runs at once, each with one thread.",
}


@group("The study")
class StudyFlags(OutputDir, Jobs, Overwriting):
    pass


@group("The study")
class DemoFlags(StudyFlags, Agent, WorldName, Seeded, NoSandbox):
    num_train_tasks: int | None = flag(
        None,
        "training tasks, each played four times; with fewer than 20, a critic distinguishes too few turns for a policy to learn from. "
        "Default: 144; with a pretrained model 500 on a GPU, else 100.",
        at_least=20,
        aliases=("train_tasks",),
    )
    num_test_tasks: int | None = flag(
        None,
        "tasks on which every method is evaluated. Default: 200; with a pretrained model 300 on a GPU, else 150.",
        at_least=1,
        aliases=("test_tasks",),
    )
    demonstrations: int | None = flag(
        None,
        "dialogues of the scripted teacher that a pretrained model imitates first. Default: 1,000 on a GPU, else 500.",
        at_least=1,
        only=Only("agent", ("pretrained",), "a pretrained --agent"),
    )
    trades: int = flag(
        10,
        "number of trades in trades tasks; the more there are, the less outcomes reveal.",
        at_least=1,
        at_most=40,
        only=Only("world", ("trades",), "--world trades"),
    )
    ways: str | None = flag(
        None,
        f"variants of SWEET-RL, separated by commas, or all: {', '.join(ALL_WAYS)}. Default: {','.join(MAIN_WAYS)}; with a "
        f"pretrained model {','.join(REAL_WAYS)}.",
        shown="all",
    )
    best_of: str = flag(
        "",
        "numbers of candidate turns (at least 2) among which critics choose at test time, separated by "
        "commas, like 2,4,8; empty: skip this part.",
        shown="all",
    )
    page_tasks: int | None = flag(
        None,
        "web pages for the scripted designers; 0: skip this part. Default: 4; with a pretrained model 0.",
        at_least=0,
    )
    dev: bool = flag(False, "evaluate on mini:dev instead of mini:test, to choose settings.")

    def check_together(self) -> None:
        if unknown := set(self.named_ways()) - set(ALL_WAYS):
            raise UsageError(f"--ways knows {', '.join(ALL_WAYS)}, and not {', '.join(sorted(unknown))}.")
        if "sweet" not in self.named_ways():
            raise UsageError(f"--ways {self.ways} has to name sweet: the others are held against it.")
        self.numbers_of_turns()

    def named_ways(self) -> tuple[str, ...]:
        if self.ways is None:
            return REAL_WAYS if is_pretrained(self.agent) else MAIN_WAYS
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
        "agent": "starting agent: embedded, a folder of sweet-rl make_embedded_agent, or a pretrained chat model "
        "(smollm2, a folder, a hub name), which first imitates the scripted teacher.",
        "world": "kind of tasks of the mini benchmark: trades, usual or easy.",
        "seed": "random seed of tasks, dialogues and training.",
    },
    narrow={"agent": {"choices": ()}, "world": {"choices": ("trades", "usual", "easy"), "aliases": ()}},
    facets=lambda flags: {
        "world": {flags["world"]},
        "agent": {"pretrained" if is_pretrained(flags["agent"]) else EMBEDDED},
    },
)
def demo(flags: DemoFlags, /) -> None:
    """Run SWEET-RL and its baselines from scratch: dialogues, critic, candidates, pairs, policies, report.

    Needs no GPU, no download and no key, and takes less than four minutes on two cores; with --agent smollm2
    it is sized for a quarter of an hour on one GPU, or a night on two cores. The embedded agent
    talks to the scripted human over HTTP, and the sandbox grades its dialogues. All methods learn from the
    same dialogues: rejection fine-tuning, DPO on whole dialogues, and SWEET-RL in three variants. If a
    browser is installed, scripted designers also draw a few web pages (Frontend Design). Each command is
    printed as you would type it. The demo ends with a table and an HTML report. Run it again to resume an
    interrupted one.
    """
    from sweet_rl.studies.runner import prepared, run_study
    from sweet_rl.studies.sweet.recipe import why_no_pages
    from sweet_rl.users.server import start_server

    chosen = {"train_tasks": flags.num_train_tasks, "test_tasks": flags.num_test_tasks}
    chosen |= {"demonstrations": flags.demonstrations, "page_tasks": flags.page_tasks}
    fields: dict[str, Any] = {"train_tasks": 144, "test_tasks": 200, "page_tasks": 4}
    fields |= begun_with(flags.agent, flags.output_dir, flags.jobs)
    fields |= {name: number for name, number in chosen.items() if number is not None}
    folder = prepared(flags.output_dir, overwrite=flags.overwrite)
    with start_server() as server:
        print(f"The scripted human answers at {server.base_url}\n", flush=True)
        study = Study(
            folder,
            human=server.base_url,
            seed=flags.seed,
            world=f"trades={flags.trades}" if flags.world == "trades" else flags.world,
            ways=flags.named_ways(),
            best_of=flags.numbers_of_turns(),
            test_split="dev" if flags.dev else "test",
            unsafe_no_sandbox=flags.unsafe_no_sandbox,
            **fields,
        )
        if study.page_tasks and (lacking := why_no_pages(study)):
            print(f"The part with web pages is left out. {lacking}\n", flush=True)
            study = replace(study, page_tasks=0)
        full = None if study.pretrained else "full_study.json"  # which is of embedded agents
        run_study("sweet", study, flags.jobs, threads=study.threads, full=full)
    if study.page_tasks:
        print(
            "Look at the pages with: sweet-rl visualize_design_dialogue_histories "
            f"{folder / 'pages.improver.jsonl'} --metrics --render_cache {folder / 'pages.rendered'}"
        )
    print(f"Read dialogues with: sweet-rl visualize_dialogue_histories {folder / 'sweet.test.jsonl'}")


@group("The study")
class OnlineFlags(StudyFlags, Iterations):
    seeds: int = flag(3, "models to begin with, and runs of every method.", at_least=1)
    first_seed: int = flag(0, "first seed; settings were chosen with seeds 100 to 102.", at_least=0)
    ablations: bool = flag(False, "the study's own method with parts left out, too.")
    test_games: int | None = flag(None, "games that every policy is measured on.", at_least=1)


def _given(flags: OnlineFlags, *names: str) -> dict[str, Any]:
    numbers = {name: getattr(flags, name) for name in ("seeds", "first_seed", *names)}
    return {name: number for name, number in numbers.items() if number is not None}


@group("The study")
class ArcherDemoFlags(OnlineFlags, Skill):
    teacher_games: int = flag(160, "games of the scripted player for each word, to imitate.", at_least=1)


@recorded("demo_archer")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_archer", "seeds": 1, "skill": 0.3, "test_games": 20},
    helps=HELPS
    | {
        "seeds": "number of seeds, each with its own demonstrations, starting policy and test games; a claim needs several.",
        "iterations": "iterations of every run; default as in configs/archer/demo_20q.yaml.",
        "skill": "share of games in which the demonstrator asks before it names a word, 0 to 1.",
        "test_games": "test games for each word and policy.",
        "ablations": "also run ArCHer with one critic, without a delay of its policy and with an exact "
        "critic, and Online CHAI, which takes longest.",
    },
    only={"skill": None},
)
def demo_archer(flags: ArcherDemoFlags, /) -> None:
    """Run ArCHer and its baselines from scratch: Twenty Questions about sixteen words, tiny models.

    Needs no GPU, no download and no key; one seed takes minutes on two cores. A scripted player that mostly
    guesses plays against the embedded oracle, and a tiny GPT-2 learns to imitate it. ArCHer, filtered BC, PPO
    and REINFORCE (with --ablations also Online CHAI) continue from there with their own games. Each command
    is printed as you would type it. The demo ends with a table and an HTML report: return against games,
    between the best play and naming the words in order, and which published orderings hold at this size. Run
    it again to resume an interrupted one.
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
        "updates of every fine-tuning; default as in the study, like --iterations, --records, --repositories and --test_games.",
        at_least=1,
    )
    records: int | None = flag(
        None, "states of the taxi and of ALFWorld on which the teacher reflects.", at_least=1
    )
    repositories: int | None = flag(None, "repositories of AutoExplore to make.", at_least=1)
    worlds: str = flag(
        ",".join(USUAL), f"any of {', '.join(WORLDS)}, separated by commas; alfworld needs its packages."
    )


@recorded("demo_reflect")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_reflect", "seeds": 1},
    helps=HELPS
    | {
        "seeds": "number of seeds, each with its own data, models and test games; a claim needs several.",
        "iterations": "iterations of every online run.",
        "test_games": "test games for each policy on each level of the taxi.",
        "ablations": "also run Reflect-RL without a curriculum (taxi) and without wrong paths in the texts "
        "(AutoExplore), and training without reflections with as many updates.",
    },
)
def demo_reflect(flags: ReflectDemoFlags, /) -> None:
    """Run Reflect-RL and its baselines from scratch: DangerousTaxi, AutoExplore, ALFWorld; tiny models.

    Needs no GPU, no download and no key; one world and one seed take minutes on two cores. A teacher that
    knows the solution reflects on games. For every seed, tiny Llamas learn by fine-tuning only, by online
    learning only, and by both, without and with reflections. Each command is printed as you would type it.
    The demo ends with a table and an HTML report: success against episodes, compared with a planner, random
    play and a linear policy, and which published orderings hold at this size. Run it again to resume an
    interrupted one.
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
