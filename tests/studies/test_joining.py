"""Studies that were run in parts, and the studies that the package brings along: their claims said anew."""

import json
import sys
from pathlib import Path

import pytest

from sweet_rl import studies
from sweet_rl.errors import DataError
from sweet_rl.studies.archer.results import with_claims as claims_of_archer
from sweet_rl.studies.reflect.results import with_claims as claims_of_reflect
from sweet_rl.studies.results import read_study
from tests.conftest import ROOT

FOLDER = Path(studies.__file__).parent
REFLECT = FOLDER / "reflect/full_study.json"


@pytest.fixture
def joined(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from join_studies import joined

    return joined


@pytest.mark.parametrize(
    ("path", "with_claims"),
    [
        (FOLDER / "archer/full_study.json", claims_of_archer),
        (REFLECT, claims_of_reflect),
        (ROOT / "benchmarks/results/archer_other_seeds.json", claims_of_archer),
        (ROOT / "benchmarks/results/reflect_taxi_other_seeds.json", claims_of_reflect),
        (ROOT / "benchmarks/results/reflect_once_more.json", claims_of_reflect),
    ],
)
def test_the_claims_of_a_study_are_those_of_its_runs(path, with_claims):
    _, comparisons = read_study(path)
    assert with_claims(comparisons) == comparisons
    claims = [claim for part in comparisons for claim in part.claims]
    assert {claim.among for claim in claims} == {len(claims)}


def part_of(tmp_path, name, seeds, worlds):
    """The file of a run of some seeds of some worlds."""
    study = json.loads(REFLECT.read_text())
    study["comparisons"] = [part for part in study["comparisons"] if part["name"] in worlds]
    for part in study["comparisons"]:
        part["claims"] = []
        for method in part["methods"]:
            method["runs"] = [run for run in method["runs"] if run["seed"] in seeds]
    study |= {"seconds": {"data": 1.5}, "provenance": {"command": name, "commit": name[0]}}
    path = tmp_path / name
    path.write_text(json.dumps(study))
    return path


def test_parts_are_joined_to_the_whole(tmp_path, joined):
    parts = [
        part_of(tmp_path, "late", range(303, 308), {"taxi"}),
        part_of(tmp_path, "early", range(300, 303), {"taxi"}),
        part_of(tmp_path, "other", range(300, 308), {"two_hops", "alfworld"}),
    ]
    whole = joined(parts, claims_of_reflect)
    found = tmp_path / "whole.json"
    found.write_text(json.dumps(whole))
    assert read_study(found)[1] == read_study(REFLECT)[1]
    assert whole["seconds"] == {"data": 4.5}
    assert whole["provenance"]["command"] == "late; early; other"
    assert whole["provenance"]["commit"] == "l; e; o"


def test_studies_of_two_kinds_are_not_joined(joined):
    with pytest.raises(DataError, match="is of another study, got 'archer'"):
        joined([REFLECT, FOLDER / "archer/full_study.json"], claims_of_reflect)


def test_a_seed_counts_once(tmp_path, joined):
    parts = [part_of(tmp_path, name, range(300, 302), {"taxi"}) for name in ("one", "again")]
    with pytest.raises(DataError, match=r"again.*'sft' has a seed that was there before, got 300"):
        joined(parts, claims_of_reflect)
