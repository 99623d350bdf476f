"""How the city oracle's answers compare with those of the 950 published dialogues of Guess My City.

The published answers were written by a model and are themselves sometimes wrong, and contradict one another;
docs/world_questions.md says how a sample of the disagreements was judged. The oracle's tables were tuned on
every other dialogue (the even ones); the odd ones are held out, and theirs is the number to quote.

Run: python benchmarks/oracle_cities.py [--data ../shared/data/games/guess_my_city.json] [--show 50]
     [--output benchmarks/results/oracle_cities.json]
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _measure import flags, machine_line, save

from sweet_rl.errors import UsageError
from sweet_rl.mini.cities.oracle import NOT_SURE, CityOracle, city_named

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SWEET_RL_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data/games/guess_my_city.json"
POLARITY = re.compile(r"(yes|no)\b", re.IGNORECASE)
EMPTY_WORDS = (
    "the a an and of in is it my city its for with to as are by from that be has have which or this people "
    "one hometown located such known some also their there famous including main spoken language"
)
EMPTY = frozenset(EMPTY_WORDS.split())


@dataclass
class Agreement:
    pairs: int = 0
    yes_no: int = 0
    yes_no_unsure: int = 0
    yes_no_told: int = 0
    agree: int = 0
    both_yes: int = 0
    published_yes: int = 0
    open: int = 0
    open_unsure: int = 0
    open_overlap: int = 0
    other_city: int = 0
    disagreements: list[tuple[str, str, str, str]] = field(default_factory=list)


def main() -> None:
    given = flags(__doc__, data=str(DATA), show=0, output=None)
    path = Path(given.data)
    if not path.exists():
        print(f"Skipped: the published dialogues are not at {path}; name them with --data.")
        return
    dialogues = json.loads(path.read_text())
    started = time.perf_counter()
    results = {"tuned on": compare(dialogues[0::2]), "held out": compare(dialogues[1::2])}
    seconds = time.perf_counter() - started
    print(table(results))
    answered = sum(one.pairs for one in results.values())
    print(f"\n{answered / seconds:,.0f} answers/s in one thread, repeats included ({machine_line()})")
    apart = results["held out"].disagreements
    for city, question, published, ours in random.Random(0).sample(apart, min(given.show, len(apart))):
        print(f"{city} | {question} | published: {published[:120]} | ours: {ours}")
    counts = {
        name: {key: value for key, value in asdict(one).items() if isinstance(value, int)}
        | {"disagree": len(one.disagreements)}
        for name, one in results.items()
    }
    save(given.output, **counts)


def compare(dialogues: list[dict[str, object]]) -> Agreement:
    oracle, found = CityOracle(), Agreement()
    for word, question, published in pairs(dialogues):
        try:
            city = city_named(word).key
        except UsageError:
            found.other_city += 1
            continue
        found.pairs += 1
        ours = oracle.answer(city, question)
        wanted = POLARITY.match(published)
        if wanted:
            _count_yes_no(found, city, question, published, ours)
        else:
            found.open += 1
            found.open_unsure += ours == NOT_SURE
            found.open_overlap += bool(_facts(ours) & _facts(published))
    return found


def pairs(dialogues: list[dict[str, object]]) -> Iterator[tuple[str, str, str]]:
    """(city, question, answer) of every line; lines without a question mark have no answer to find."""
    for dialogue in dialogues:
        for line in dialogue["conversation"]:
            last = line.rfind("?") if line.count("?") == 1 else line.find("?")
            if last >= 0:
                yield dialogue["word"], line[: last + 1].strip(), line[last + 1 :].strip(' "')


def _count_yes_no(found: Agreement, city: str, question: str, published: str, ours: str) -> None:
    wanted, said = POLARITY.match(published), POLARITY.match(ours)
    found.yes_no += 1
    if ours == NOT_SURE:
        found.yes_no_unsure += 1
    elif said is None:
        found.yes_no_told += 1
    else:
        yes = wanted[1].lower() == "yes"
        found.published_yes += yes
        if said[1].lower() == wanted[1].lower():
            found.agree += 1
            found.both_yes += yes
        else:
            found.disagreements.append((city, question, published, ours))


def _facts(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]{3,}", text.lower()) if word not in EMPTY}


def table(results: dict[str, Agreement]) -> str:
    lines = [f"{'':46}" + "".join(f"{name:>16}" for name in results)]
    for title, value in (
        ("question and answer pairs", lambda one: f"{one.pairs:,}"),
        ("(of cities outside the 91, left out)", lambda one: f"{one.other_city:,}"),
        ("published answer is Yes or No", lambda one: f"{one.yes_no:,}"),
        ("  oracle: not sure", lambda one: _share(one.yes_no_unsure, one.yes_no)),
        ("  oracle: tells a sentence", lambda one: _share(one.yes_no_told, one.yes_no)),
        ("  agreement where both say Yes or No", lambda one: _share(one.agree, _compared(one))),
        ("  always answering Yes would agree", lambda one: _share(one.published_yes, _compared(one))),
        ("published answer is free", lambda one: f"{one.open:,}"),
        ("  oracle: not sure", lambda one: _share(one.open_unsure, one.open)),
        ("  shares a telling word", lambda one: _share(one.open_overlap, one.open)),
    ):
        lines.append(f"{title:46}" + "".join(f"{value(one):>16}" for one in results.values()))
    return "\n".join(lines)


def _compared(one: Agreement) -> int:
    return one.agree + len(one.disagreements)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


if __name__ == "__main__":
    main()
