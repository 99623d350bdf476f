"""The pages of docs/integrations: every block executed as written, where the package that the page is about is installed."""

import importlib.util

import pytest

from tests.conftest import ROOT
from tests.docs.test_tutorials import execute

NEEDS = {"verifiers": "verifiers", "inspect": "inspect_ai", "openenv": "openenv"}
NEEDS |= {"skyrl": "skyrl_gym", "atif": "sweet_rl", "verl": "sweet_rl"}
"""What each page needs."""
PAGES = sorted((ROOT / "docs/integrations").glob("*.md"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_works_as_written(page, tmp_path):
    needed = NEEDS[page.stem]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs the package {needed}")
    execute(page, tmp_path)
