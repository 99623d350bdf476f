"""The mini study over warm starts, seeds and numbers of trades: does step-level credit help, and when?

Every seed has its own tasks, dialogues and trainings; all methods of a seed learn from the same dialogues.
Settings were chosen on mini:trades=10:dev with seed 0 (benchmarks/mini_settings.py); the test tasks and the
other seeds are for this. A second warm start: sweet-rl make_embedded_agent outputs/agents/1 --seed 1.

Seeds take turns with the warm starts: of two, the first one has every other seed. What is in the output
already is not run again; other settings, sizes or tasks are refused, and so is another warm start for a seed.

Run: python benchmarks/mini.py [--agents embedded,outputs/agents/1] [--seeds 6,7,8,9,10,11,12,13]
     [--trades 1,10,40] [--ways sweet,...|all] [--best_of 2,4,...]
     [--output benchmarks/results/mini.json --packaged sweet_rl/studies/sweet/full_study.json]
(about six minutes for each seed and number of trades on two cores; an interrupted run resumes)

Of a real pretrained model, in parts for one GPU:
     python benchmarks/mini.py --plan [--agents smollm2] [--jobs 4] [--folder outputs/real] [--output FILE]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from _measure import flags, machine_line

from sweet_rl.chat import model_path
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import load_trajectories, replace_file
from sweet_rl.runs import facts
from sweet_rl.runs.facts import digest_of
from sweet_rl.statistics import mean_of
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Counted,
    Method,
    Results,
    Run,
    claim_over_seeds,
    claim_over_tasks,
)
from sweet_rl.studies.runner import finish, table
from sweet_rl.studies.sweet import results as sweet_results
from sweet_rl.studies.sweet.results import MEASURES, METHODS, choosing_agents, results
from sweet_rl.studies.sweet.settings import ALL_WAYS, LINES, MAIN_WAYS, REAL_WAYS, Study, begun_with
from sweet_rl.types import Json

COMMITTED: Final = Path(__file__).with_name("results") / "mini.json"
"""The study that was run once, by mini.py, on seeds that no setting was chosen on."""

FORMAT: Final = "sweet_rl.mini_study/1"

Numbers: TypeAlias = Mapping[str, Mapping[str, float]]  # The measures of every method of one seed


WARM_START: Final = "warm start"  # What a seed began with, in what made it

SUCCESS: Final = MEASURES[0].name

COLUMNS: Final = (  # Measures in the tables of the full study
    *(SUCCESS, "useful_share", "usual_share", "repeated question", "early answer", "auc_questions"),
    *("auc_useful_early", "auc_answering", "right_pairs"),
)

DOSES: Final = ("sweet", "sweet_blind", "sweet_wrong", "dpo", "rft", "warm_start", "insider")
"""Methods whose success is shown against the number of trades."""


REAL: Final = "benchmarks/results/real.json"
FEW_WAYS: Final = REAL_WAYS[:3]  # What is claimed first: outcomes teach a critic, and so does the solution
PARTS: Final = (  # Of the study of a pretrained model (seed, trades, ways), in the order in which they are run
    *((seed, 10, FEW_WAYS) for seed in (6, 7, 8)),
    *((6, trades, FEW_WAYS) for trades in (1, 40)),
    *((seed, 10, REAL_WAYS) for seed in range(9, 14)),
)


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed: the measures of its methods, and the runs that made them (warm start, commit, machine, day).

    `won` says of a method which test tasks it solved, 1 or 0 each, and - for an episode that failed.
    """

    numbers: Numbers
    made: tuple[Mapping[str, str], ...]
    won: Mapping[str, str] = field(default_factory=dict)

    def solved(self, name: str) -> dict[int, float]:
        return {place: float(sign) for place, sign in enumerate(self.won.get(name, "")) if sign != "-"}


Seeds: TypeAlias = Mapping[int, Mapping[int, Seed]]  # By number of trades, then by seed


@dataclass(frozen=True, slots=True)
class FullStudy:
    """Many seeds and numbers of trades, all with the same settings: sizes, split, and those of every method."""

    settings: Mapping[str, Json]
    seeds: Seeds

    def comparisons(self) -> Iterator[Comparison]:
        """Success against the number of trades; each number of trades; a critic at test time."""
        if len(self.seeds) > 1:
            yield _against_trades(self.seeds)
        for trades, seeds in sorted(self.seeds.items()):
            yield _at(trades, seeds)
            success = {
                number: {name: found[SUCCESS] for name, found in seed.numbers.items()}
                for number, seed in seeds.items()
            }
            title = f"{_trades(trades)}, a critic chooses at test time"
            if chosen := sweet_results.comparison_at_test_time(f"test_time{trades}", success, title):
                yield chosen

    def with_seed(self, trades: int, number: int, seed: Seed) -> FullStudy:
        """The study with a seed, or with further methods of one, from the same warm start."""
        of_trades = self.seeds.get(trades, {})
        known = of_trades.get(number, Seed({}, ()))
        starts = {each[WARM_START] for each in (*known.made, *seed.made)}
        if len(starts) > 1:
            began = f"began with {known.made[0][WARM_START]}"
            raise DataError(began, field=f"seed {number}", value=seed.made[0][WARM_START])
        made = (*known.made, *(each for each in seed.made if each not in known.made))
        grown = Seed({**known.numbers, **seed.numbers}, made, {**known.won, **seed.won})
        return replace(self, seeds={**self.seeds, trades: {**of_trades, number: grown}})

    def results(self) -> Results:
        made: dict[str, set[str]] = defaultdict(set)
        for run in (run for seeds in self.seeds.values() for seed in seeds.values() for run in seed.made):
            for name, value in run.items():
                made[name].add(value)
        provenance = {name: ", ".join(sorted(values)) for name, values in made.items()}
        title = "SWEET-RL and its rivals in the mini benchmark"
        return Results(
            "sweet", title, "", tuple(self.comparisons()), settings=self.settings, provenance=provenance
        )


def numbers_of(results: Results, study: Study) -> dict[str, dict[str, float]]:
    measured = {
        method.name: {name: found.mean for name, found in method.runs[0].measures.items()}
        for method in results.comparisons[0].methods
        if method.runs[0].measures
    }
    return measured | {
        name: {SUCCESS: sweet_results.success_of(study, name)["mean"]} for name in choosing_agents(study)
    }


def read_full_study(path: Path) -> FullStudy | None:
    if not path.exists():
        return None
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(
            f"must have the format {FORMAT}", path=path, repair="Name a file of benchmarks/mini.py."
        )
    try:
        seeds = {
            int(trades): {
                int(number): Seed(seed["numbers"], tuple(seed["made"]), seed.get("won", {}))
                for number, seed in of_trades.items()
            }
            for trades, of_trades in found["trades"].items()
        }
        return FullStudy(found["settings"], seeds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"is not whole ({type(error).__name__}: {error})",
            path=path,
            repair="Restore it, or remove it and run benchmarks/mini.py again.",
        ) from None


def write_packaged(path: Path, study: FullStudy) -> None:
    """Write the study as the `study.json` that comes with the package, without what is not known."""

    def known(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: known(each) for name, each in value.items() if each is not None}
        return list(map(known, value)) if isinstance(value, list | tuple) else value

    content = known(asdict(study.results())) | {"settings": dict(study.settings)}
    replace_file(path, [f"{json.dumps(content)}\n".encode()])


def write_full_study(path: Path, study: FullStudy) -> None:
    trades = {
        str(k): {
            str(number): {
                name: value for name, value in asdict(seeds[number]).items() if value or name != "won"
            }
            for number in sorted(seeds)
        }
        for k, seeds in sorted(study.seeds.items())
    }
    content = {"format": FORMAT, "settings": study.settings, "trades": trades}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [f"{json.dumps(content, indent=1)}\n".encode()])


def _trades(count: int) -> str:
    return f"{count} trade{'s' if count > 1 else ''}"


def _against_trades(seeds: Seeds) -> Comparison:
    numbers = {k: {number: seed.numbers for number, seed in seeds[k].items()} for k in sorted(seeds)}
    common = sorted(set.intersection(*(set(of_trades) for of_trades in numbers.values())))

    def runs(name: str) -> tuple[Run, ...]:
        return tuple(
            Run(seed, curves={SUCCESS: tuple((k, numbers[k][seed][name][SUCCESS]) for k in numbers)})
            for seed in common
            if all(name in numbers[k][seed] for k in numbers)
        )

    return Comparison(
        "trades",
        "The more kinds of shop, the more it helps that the critic reads the solution",
        own="sweet",
        start="warm_start",
        text="Success against the number of trades: kinds of shop, each with usual extras of its own. "
        f"Seeds: {len(common)}.",
        curves=(Axes(SUCCESS, "success", "trades", "share", main=True, log=True),),
        methods=tuple(Method(name, *METHODS[name], found) for name in DOSES if (found := runs(name))),
    )


def _at(trades: int, seeds: Mapping[int, Seed]) -> Comparison:
    methods, alone = {}, next(iter(seeds.values())) if len(seeds) == 1 else Seed({}, ())
    for name in METHODS:
        runs = tuple(
            Run(number, {measure: Counted(value) for measure, value in seed.numbers[name].items()})
            for number, seed in sorted(seeds.items())
            if name in seed.numbers
        )
        if runs and (tasks := alone.solved(name)):
            found = mean_of([*tasks.values()], low=0.0, high=1.0)
            success = Counted(found.mean, found.low, found.high, n=len(tasks))
            runs = (replace(runs[0], measures={**runs[0].measures, SUCCESS: success}),)
        if runs:
            methods[name] = Method(name, *METHODS[name], runs=runs, bound=name in LINES)
    # With one trade another task's solution shows the same usual extras, so it is not wrong.
    claims = [
        claim
        for claim in sweet_results.CLAIMS
        if (trades > 1 or claim[1] != "sweet_wrong") and claim[1] in methods
    ]
    measures = {measure.name: replace(measure, group="result") for measure in MEASURES}
    return Comparison(
        f"trades{trades}",
        _trades(trades),
        own="sweet",
        start="warm_start",
        text=f"mini:trades={trades}, {_counted(seeds)}.",
        measures=tuple(measures[name] for name in COLUMNS),
        methods=tuple(methods.values()),
        claims=tuple(
            claim_over_tasks(text, ("sweet", alone.solved("sweet")), (worse, alone.solved(worse)))
            if alone.won
            else claim_over_seeds(text, methods["sweet"], methods[worse], SUCCESS)
            for text, worse in claims
        ),
    )


def _counted(seeds: Mapping[int, Seed]) -> str:
    """How many seeds there are, and what their intervals are over, where a single one has them."""
    tasks = max((len(each.won.get("sweet", "")) for each in seeds.values()), default=0)
    over = f" (intervals over its {tasks} test tasks)" if len(seeds) == 1 and tasks else ""
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}{over}"


HABITS = {  # What the third kind of table shows of every method
    "usual_share": "usual extras",
    "early answer": "early answers",
    "repeated question": "repetitions",
    "auc_questions": "AUC: questions",
    "auc_useful_early": "useful above early",
    "auc_useless_early": "useless above early",
    "right_pairs": "right pairs",
    "wrong_pairs": "wrong pairs, %",
}
SCALES = {"wrong_pairs": 100}


def main() -> None:
    if "--plan" in sys.argv:  # the parts say what the other flags are
        usual = {"agents": "smollm2", "jobs": 4, "folder": "outputs/real", "output": REAL}
        print("\n".join(plan(flags(__doc__, plan=False, **usual))))
        return
    arguments = flags(
        __doc__,
        agents=None,
        seeds=[6, 7, 8, 9, 10, 11, 12, 13],
        trades=[1, 10, 40],
        ways=",".join(MAIN_WAYS),
        best_of=None,
        train_tasks=0,
        test_tasks=0,
        dev=False,
        unsafe_no_sandbox=False,
        jobs=2,
        plan=False,
        markdown=False,
        folder="outputs/mini",
        output="outputs/mini/study.json",
        packaged=None,
        page=None,
    )
    output = Path(arguments.output)
    if arguments.markdown:
        print(markdown(read_full_study(output) or FullStudy({}, {})))
        return
    for study in _studies(arguments):
        full = known(output, _settings(study))
        trades, wanted = study.trades or 0, {*sweet_results.measured_in(study), *choosing_agents(study)}
        seed = full.seeds.get(trades, {}).get(study.seed)
        full = full.with_seed(trades, study.seed, Seed({}, _made(study)))  # refuses another warm start
        if seed and wanted <= seed.numbers.keys():
            print(f"{study.world}, seed {study.seed}: is in {output}")
            continue
        _run(study, arguments.jobs)
        won = {name: won_in(study, name) for name in wanted} if study.pretrained else {}
        seed = Seed(numbers_of(results(study, {}), study), _made(study), won)
        write_full_study(output, full.with_seed(trades, study.seed, seed))
    found = read_full_study(output) or FullStudy({}, {})
    if arguments.packaged:
        write_packaged(Path(arguments.packaged), found)
    if arguments.page:
        Path(arguments.page).mkdir(parents=True, exist_ok=True)
        finish(Path(arguments.page), found.results())
    else:
        print(f"\n{table(found.results())}")


def plan(given: argparse.Namespace) -> Iterator[str]:
    """The parts of the study, what of them is done, and the command of each; a part fits one GPU for some minutes."""
    full, agents = read_full_study(Path(given.output)) or FullStudy({}, {}), given.agents.split(",")
    for number, (seed, trades, ways) in enumerate(PARTS, start=1):
        there = full.seeds.get(trades, {}).get(seed, Seed({}, ())).numbers
        state = "done" if there.keys() >= {*ways} else "missing"
        yield f"[{number}/{len(PARTS)}] seed {seed}, {_trades(trades)}: {state}"
        chosen = {"agents": agents[(seed - PARTS[0][0]) % len(agents)], "seeds": seed, "trades": trades}
        chosen |= {"ways": ",".join(ways), "jobs": given.jobs, "folder": given.folder, "output": given.output}
        words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
        yield f"    $ python benchmarks/mini.py {shlex.join(words)}"


def won_in(study: Study, name: str) -> str:
    """Which test tasks an agent solved, as `Seed.won` has it."""
    played = load_trajectories(study.measured(name))
    return "".join("-" if each.reward is None else str(int(each.reward == 1)) for each in played)


def _studies(arguments: argparse.Namespace) -> Iterator[Study]:
    """All of a seed come before those of the next one, so that what is done is whole at any time."""
    ways = ALL_WAYS if arguments.ways == "all" else tuple(arguments.ways.split(","))
    agents = (arguments.agents or "embedded").split(",")
    chosen = {"train_tasks": arguments.train_tasks, "test_tasks": arguments.test_tasks}
    for place, seed in enumerate(arguments.seeds):
        for trades in arguments.trades:
            folder = Path(arguments.folder) / f"trades{trades}-{seed}"
            fields = {"train_tasks": 600, "test_tasks": 500}
            fields |= begun_with(agents[place % len(agents)], folder, arguments.jobs)
            yield Study(
                folder,
                human="",
                seed=seed,
                world=f"trades={trades}",
                ways=ways,
                best_of=tuple(map(int, arguments.best_of.split(","))) if arguments.best_of else (),
                test_split="dev" if arguments.dev else "test",
                unsafe_no_sandbox=arguments.unsafe_no_sandbox,
                **fields | {name: number for name, number in chosen.items() if number},
            )


def _settings(study: Study) -> dict[str, Json]:
    return {"measured on": f"mini:trades=K:{study.test_split}", **sweet_results.settings_of(study)}


def _made(study: Study) -> tuple[dict[str, str]]:
    agent = study.pretrained or study.agent
    digest = digest_of(Path(model_path(agent)))["sha256"]
    made = {
        WARM_START: f"{Path(agent).name} ({digest[:12]})",
        "commit": facts.commit(),
        "machine": machine_line(),
        "day": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }
    if study.pretrained:
        import torch

        card = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
        made |= {"torch": torch.__version__, "GPU": card}
    return (made,)


def markdown(full: FullStudy) -> str:
    heads = [f"K = {trades}" for trades in full.seeds]
    rivals = [(name, title) for name, title in _titled() if name != "sweet" and name not in LINES]
    success = [(title, [_success(seeds, name) for seeds in full.seeds.values()]) for name, title in _titled()]
    less = [
        (title, [_success(seeds, "sweet", name) for seeds in full.seeds.values()]) for name, title in rivals
    ]
    tables = [_table("success %", heads, success), _table("SWEET-RL minus", heads, less)]
    real = any(seed.won for seeds in full.seeds.values() for seed in seeds.values())
    if real:
        fallen = [_success(seeds, "sweet_wrong", "warm_start") for seeds in full.seeds.values()]
        tables += (
            [_table("difference", heads, [("wrong solution minus warm start", fallen)])]
            if any(fallen)
            else []
        )
        counted = (f"K = {trades}: {_counted(seeds)}" for trades, seeds in full.seeds.items())
        made = full.results().provenance.items()
        tables[:0] = ["; ".join(counted), "; ".join(f"{name}: {value}" for name, value in made)]
    for trades, seeds in full.seeds.items():
        of_one = replace(full, seeds={trades: seeds})
        habits = [measure for measure in HABITS if measure != "wrong_pairs" or real]
        rows = [
            (title, [_shown(*_over(of_one, name, each), SCALES.get(each, 1), bare=True) for each in habits])
            for name, title in _titled()
        ]
        tables.append(_table(f"K = {trades}", [HABITS[measure] for measure in habits], rows))
    tables += [table for trades in full.seeds if (table := _at_test_time(full, trades))]
    return "\n\n".join(tables)


def _success(seeds: Mapping[int, Seed], name: str, minus: str = "") -> str:
    """The success of a method, or by how much it is more than another's: over seeds, or over the tasks of the only one."""
    (first, *others) = seeds.values()
    low, values = 0.0, first.solved(name)
    if minus:
        low, rival = -1.0, first.solved(minus)
        values = {place: value - rival[place] for place, value in values.items() if place in rival}
    if values and not others:
        return _shown([*values.values()], 100, low=low, high=1.0)
    known = [each.numbers for each in seeds.values() if {name, minus or name} <= each.numbers.keys()]
    return _shown([each[name][SUCCESS] - (each[minus][SUCCESS] if minus else 0) for each in known], 100)


def _at_test_time(full: FullStudy, trades: int) -> str:
    success = {
        seed: {name: found[SUCCESS] for name, found in one.numbers.items()}
        for seed, one in full.seeds[trades].items()
    }
    found = sweet_results.comparison_at_test_time("critics", success, "")
    if found is None:
        return ""
    curves = {
        each.title: [dict(run.curves[sweet_results.AT_TEST_TIME.name]) for run in each.runs]
        for each in found.methods
    }
    turns = sorted({number for runs in curves.values() for run in runs for number in run})
    rows = [
        (title, [_shown([run[number] for run in runs if number in run], 100) for number in turns])
        for title, runs in curves.items()
    ]
    return _table(f"success %, K = {trades}", [f"best of {number:.0f}" for number in turns], rows)


def _titled() -> Iterator[tuple[str, str]]:
    return ((name, title) for name, (title, _) in METHODS.items())


def _over(full: FullStudy, name: str, measure: str) -> list[list[float]]:
    of_seeds = (seeds.values() for seeds in full.seeds.values())
    return [
        [seed.numbers[name][measure] for seed in seeds if measure in seed.numbers.get(name, {})]
        for seeds in of_seeds
    ]


def _shown(values: list[float], factor: int, *, bare: bool = False, **ends: float) -> str:
    if not values:
        return ""
    found = mean_of(values, **ends)
    mean, low, high = (
        None if each is None else factor * each for each in (found.mean, found.low, found.high)
    )
    if bare or low is None:
        return f"{mean:.{1 if factor == 100 else 2}f}"
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _table(corner: str, heads: list[str], rows: list[tuple[str, list[str]]]) -> str:
    lines = [[corner, *heads], *([title, *cells] for title, cells in rows if any(cells))]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, f"|{'---|' * (len(heads) + 1)}", *body])


def known(output: Path, settings: dict[str, Json]) -> FullStudy:
    found = read_full_study(output)
    if found is None:
        return FullStudy(settings, {})
    theirs = found.settings
    other = [
        f"{name} {theirs.get(name)!r} and not {settings.get(name)!r}"
        for name in settings | theirs
        if settings.get(name) != theirs.get(name)
    ]
    if other:
        raise UsageError(f"{output} is of another study: {'; '.join(other)}. Name another --output.")
    return found


def _run(study: Study, jobs: int) -> None:
    flags = {
        "output_dir": study.folder, "agent": study.pretrained or study.agent, "seed": study.seed, "trades": study.trades,
        "num_train_tasks": study.train_tasks, "num_test_tasks": study.test_tasks, "jobs": jobs,
        "ways": ",".join(study.ways), "best_of": ",".join(map(str, study.best_of)), "page_tasks": 0,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    words += ["--dev"] if study.test_split == "dev" else []
    words += ["--unsafe_no_sandbox"] if study.unsafe_no_sandbox else []
    subprocess.run([sys.executable, "-m", "sweet_rl", "demo", *words], check=True)


if __name__ == "__main__":
    main()
