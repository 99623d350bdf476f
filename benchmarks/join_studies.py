"""Join study.json files of a study that was run in parts, and say anew what their numbers say of its claims.

With one file the claims alone are said anew: where there are more of them than when it was run.

Run: python benchmarks/join_studies.py sweet_rl/studies/reflect/full_study.json PART.json...
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sweet_rl.records import replace_file
from sweet_rl.studies.archer.results import with_claims as claims_of_archer
from sweet_rl.studies.brought_along import read_study
from sweet_rl.studies.joining import joined
from sweet_rl.studies.reflect.results import with_claims as claims_of_reflect

CLAIMS = {"archer": claims_of_archer, "reflect": claims_of_reflect}


def main() -> None:
    """Write the joined file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("parts", type=Path, nargs="+", help="study.json files; OUTPUT itself may be one")
    flags = parser.parse_args()
    study = read_study(flags.parts[0])[0]["study"]
    if study not in CLAIMS:
        parser.error(f"{flags.parts[0]} is of {study!r}; this joins {' and '.join(CLAIMS)}")
    whole = joined(flags.parts, CLAIMS[study])
    replace_file(flags.output, [json.dumps(whole).encode(), b"\n"])
    for part in whole["comparisons"]:
        print(part["title"])
        for claim in part["claims"]:
            ends = [f"{end:+.3f}" for end in (claim["low"], claim["high"]) if end is not None]
            print(f"  {claim['text']}: {claim['mean']:+.3f} [{', '.join(ends) or 'one seed: no interval'}]")


if __name__ == "__main__":
    main()
