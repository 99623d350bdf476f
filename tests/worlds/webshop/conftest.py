"""A shop of a few given pages, tasks of it, and a shop's server inside the test's own event loop."""

from contextlib import asynccontextmanager
from urllib.parse import unquote

from sweet_rl.mini.shop import application
from sweet_rl.records import task_from_row
from sweet_rl.serving import listening
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


@asynccontextmanager
async def serving(shop, app=None):
    """Yields the base URL; there is no process to wait for."""
    async with listening(app or application(shop), "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}"
