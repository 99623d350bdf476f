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
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from _measure import flags, machine_line
from _mini_study import (
    SUCCESS,
    WARM_START,
    FullStudy,
    Seed,
    numbers_of,
    read_full_study,
    write_full_study,
    write_packaged,
)

from sweet_rl.chat import model_path
from sweet_rl.errors import UsageError
from sweet_rl.runs import facts
from sweet_rl.runs.facts import digest_of
from sweet_rl.statistics import mean_of
from sweet_rl.studies.runner import table
from sweet_rl.studies.sweet.results import (
    AT_TEST_TIME,
    METHODS,
    choosing_agents,
    comparison_at_test_time,
    measured_in,
    results,
    settings_of,
)
from sweet_rl.studies.sweet.settings import ALL_WAYS, LINES, MAIN_WAYS, Study
from sweet_rl.types import Json

HABITS = {  # What the third kind of table shows of every method
    "usual_share": "usual extras",
    "early answer": "early answers",
    "repeated question": "repetitions",
    "auc_questions": "AUC: questions",
    "auc_useful_early": "useful above early",
    "auc_useless_early": "useless above early",
    "right_pairs": "right pairs",
}


def main() -> None:
    arguments = flags(
        __doc__, agents=None, seeds=[6, 7, 8, 9, 10, 11, 12, 13], trades=[1, 10, 40],
        ways=",".join(MAIN_WAYS), best_of=None, train_tasks=600, test_tasks=500, dev=False,
        markdown=False, folder="outputs/mini", output="outputs/mini/study.json", packaged=None,
    )  # fmt: skip
    output = Path(arguments.output)
    if arguments.markdown:
        print(markdown(read_full_study(output) or FullStudy({}, {})))
        return
    for study in _studies(arguments):
        full = known(output, _settings(study))
        trades, wanted = study.trades or 0, {*measured_in(study), *choosing_agents(study)}
        seed = full.seeds.get(trades, {}).get(study.seed)
        full = full.with_seed(trades, study.seed, Seed({}, _made(study)))  # refuses another warm start
        if seed and wanted <= seed.numbers.keys():
            print(f"{study.world}, seed {study.seed}: is in {output}")
            continue
        _run(study)
        full = full.with_seed(trades, study.seed, Seed(numbers_of(results(study, {}), study), _made(study)))
        write_full_study(output, full)
    found = read_full_study(output) or FullStudy({}, {})
    if arguments.packaged:
        write_packaged(Path(arguments.packaged), found)
    print(f"\n{table(found.results())}")


def _studies(arguments: argparse.Namespace) -> Iterator[Study]:
    """All of a seed come before those of the next one, so that what is done is whole at any time."""
    ways = ALL_WAYS if arguments.ways == "all" else tuple(arguments.ways.split(","))
    agents = (arguments.agents or "embedded").split(",")
    for place, seed in enumerate(arguments.seeds):
        agent = agents[place % len(agents)]
        for trades in arguments.trades:
            yield Study(
                Path(arguments.folder) / f"trades{trades}-{seed}",
                agent,
                human="",
                seed=seed,
                world=f"trades={trades}",
                ways=ways,
                best_of=tuple(map(int, arguments.best_of.split(","))) if arguments.best_of else (),
                train_tasks=arguments.train_tasks,
                test_tasks=arguments.test_tasks,
                test_split="dev" if arguments.dev else "test",
            )


def _settings(study: Study) -> dict[str, Json]:
    return {"measured on": f"mini:trades=K:{study.test_split}", **settings_of(study)}


def _made(study: Study) -> tuple[dict[str, str]]:
    digest = digest_of(Path(model_path(study.agent)))["sha256"]
    made = {
        WARM_START: f"{Path(study.agent).name} ({digest[:12]})",
        "commit": facts.commit(),
        "machine": machine_line(),
        "day": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }
    return (made,)


def markdown(full: FullStudy) -> str:
    heads = [f"K = {trades}" for trades in full.seeds]
    success = [
        (title, [_shown(each, 100) for each in _over(full, name, SUCCESS)]) for name, title in _titled()
    ]
    less = [
        (title, [_shown(_minus(full, trades, name), 100) for trades in full.seeds])
        for name, title in _titled()
        if name != "sweet" and name not in LINES
    ]
    tables = [_table("success %", heads, success), _table("SWEET-RL minus", heads, less)]
    for trades in full.seeds:
        of_one = replace(full, seeds={trades: full.seeds[trades]})
        rows = [
            (title, [_shown(*_over(of_one, name, measure), 1, bare=True) for measure in HABITS])
            for name, title in _titled()
        ]
        tables.append(_table(f"K = {trades}", list(HABITS.values()), rows))
    tables += [table for trades in full.seeds if (table := _at_test_time(full, trades))]
    return "\n\n".join(tables)


def _at_test_time(full: FullStudy, trades: int) -> str:
    success = {
        seed: {name: found[SUCCESS] for name, found in one.numbers.items()}
        for seed, one in full.seeds[trades].items()
    }
    found = comparison_at_test_time("critics", success, "")
    if found is None:
        return ""
    curves = {
        each.title: [dict(run.curves[AT_TEST_TIME.name]) for run in each.runs] for each in found.methods
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


def _minus(full: FullStudy, trades: int, name: str) -> list[float]:
    numbers = (seed.numbers for seed in full.seeds[trades].values())
    return [each["sweet"][SUCCESS] - each[name][SUCCESS] for each in numbers if name in each]


def _shown(values: list[float], factor: int, *, bare: bool = False) -> str:
    if not values:
        return ""
    found = mean_of(values)
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


def _run(study: Study) -> None:
    flags = {
        "output_dir": study.folder, "agent": study.agent, "seed": study.seed, "trades": study.trades,
        "num_train_tasks": study.train_tasks, "num_test_tasks": study.test_tasks,
        "ways": ",".join(study.ways), "best_of": ",".join(map(str, study.best_of)), "page_tasks": 0,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    dev = ["--dev"] if study.test_split == "dev" else []
    subprocess.run([sys.executable, "-m", "sweet_rl", "demo", *words, *dev], check=True)


if __name__ == "__main__":
    main()
