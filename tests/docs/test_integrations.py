"""The sections of docs/integrations.md: every block executed as written, where the package that the section is about is installed."""

import importlib.util
import re

import pytest

from tests.conftest import ROOT
from tests.docs.test_tutorials import execute

NEEDS = {"verifiers": "verifiers", "inspect_ai": "inspect_ai", "OpenEnv and TRL": "openenv"}
NEEDS |= {"skyrl-gym": "skyrl_gym", "ATIF": "sweet_rl", "verl": "sweet_rl"}
"""What each section with blocks needs."""
PARTS = re.split(r"^## (.+)\n", (ROOT / "docs/integrations.md").read_text(), flags=re.MULTILINE)
SECTIONS = {title: text for title, text in zip(PARTS[1::2], PARTS[2::2], strict=True) if "```" in text}


def test_no_section_is_left_out():
    assert SECTIONS.keys() == NEEDS.keys()
    assert "```" not in PARTS[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_works_as_written(title, tmp_path):
    needed = NEEDS[title]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs the package {needed}")
    page = tmp_path / f"{title}.md"
    page.write_text(SECTIONS[title])
    execute(page, tmp_path)
