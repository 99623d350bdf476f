"""How many questions a second the embedded oracle of Twenty Questions answers, and how well it understands.

    python benchmarks/oracle_objects.py

Every question is read anew for the first number; the second asks the same questions again, as games do.
"""

from __future__ import annotations

import time
from pathlib import Path

from sweet_rl.mini.objects.oracle import INVALID, answer, facts, understand

LISTS = Path(__file__).parent.parent / "tests/mini/tables"
FAIR = {"Yes": "Yes.", "No": "No.", "?": INVALID}


def main() -> None:
    cases = [
        line.split(" | ")
        for name in ("objects_held_out.tsv", "objects_fresh.tsv", "objects_third.tsv")
        for line in (LISTS / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    questions = sorted({question for _, question, _ in cases})
    things = [thing.name for thing in facts().things]
    understand(questions[0])
    understand.cache_clear()
    begun = time.perf_counter()
    for question in questions:
        answer("dog", question)
    new = len(questions) / (time.perf_counter() - begun)
    begun = time.perf_counter()
    for question in questions:
        for thing in things:
            answer(thing, question)
    again = len(questions) * len(things) / (time.perf_counter() - begun)
    said = [(answer(thing, question), FAIR[fair]) for thing, question, fair in cases]
    print(f"{'questions read anew':28}{new:>12,.0f} answers/s")
    print(f"{'questions heard before':28}{again:>12,.0f} answers/s")
    print(f"{'right of ' + str(len(cases)):28}{sum(got == fair for got, fair in said) / len(said):>12.1%}")
    print(f"{'refused':28}{sum(got != fair and got == INVALID for got, fair in said) / len(said):>12.1%}")
    print(f"{'wrong':28}{sum(got not in (fair, INVALID) for got, fair in said) / len(said):>12.1%}")


if __name__ == "__main__":
    main()
