"""A shop of a few given pages, and tasks of it."""

from urllib.parse import unquote

import pytest

from sweet_rl.records import task_from_row
from sweet_rl.worlds.webshop.shops import LocalShop

NOT_FOUND = "<html><body>NOT FOUND</body></html>"


class GivenPages(LocalShop):
    """Pages by decoded path; keeps the paths that were asked for."""

    def __init__(self, pages):
        super().__init__(self.page)
        self.pages = pages
        self.asked = []

    def page(self, path):
        self.asked.append(unquote(path))
        return self.pages.get(unquote(path), NOT_FOUND)


def task_of(session, **extra):
    row = {"task_id": f"webshop/{session}", "problem_description": "", "ground_truth": "", "session": session}
    return task_from_row(row | extra)


@pytest.fixture
def pages(shared):
    import json

    return json.loads((shared / "goldens/archer/env_expected.json").read_text())["webshop"]["server_pages"]
