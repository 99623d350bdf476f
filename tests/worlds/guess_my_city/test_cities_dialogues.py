"""The city oracle beside the published dialogues, as far as they are at hand."""

import sys

import pytest

from tests.conftest import ROOT


def test_agreement_with_the_held_out_half_stays_where_it_is(shared, monkeypatch):
    data = shared / "data" / "games" / "guess_my_city.json"
    if not data.exists():
        pytest.skip(f"no dialogues at {data}")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import json

    import oracle_cities

    found = oracle_cities.compare(json.loads(data.read_text())[1::10])  # every fifth dialogue of that half
    told = found.agree + len(found.disagreements)
    assert found.yes_no > 1000
    assert found.agree / told > 0.86
    assert told / found.yes_no > 0.95
    assert found.open_unsure / found.open < 0.06
