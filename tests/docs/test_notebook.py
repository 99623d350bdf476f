"""The notebook of docs/notebooks: its cells executed in order, plainly and where an event loop runs, as in Jupyter."""

import ast
import asyncio
import json

import pytest

from tests.conftest import ROOT

PATH = ROOT / "docs/notebooks/five_episodes.ipynb"
NOTEBOOK = json.loads(PATH.read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def execute():
    """The names that the cells leave, and what the last cell shows."""
    names = {}
    for cell in CELLS:
        *lines, last = ast.parse(cell).body
        exec(compile(ast.Module(lines, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return names, shown


@pytest.mark.parametrize("in_a_loop", [False, True], ids=["plainly", "in a loop"])
def test_the_notebook_works_as_written(in_a_loop):
    async def kernel():
        return execute()

    names, shown = asyncio.run(kernel()) if in_a_loop else execute()
    rewards = [episode.reward for episode in names["graded"]]
    assert len(rewards) == 5
    assert 1.0 in rewards
    page = shown._repr_html_()
    assert page.startswith("<iframe")
    assert "delivery costs 3." in page


def test_the_notebook_is_short_and_has_no_outputs():
    lines = [line for cell in CELLS for line in cell.splitlines() if line.strip()]
    assert len(lines) <= 30
    assert not [cell for cell in NOTEBOOK["cells"] if cell.get("outputs") or cell.get("execution_count")]
    assert (NOTEBOOK["nbformat"], len({cell["id"] for cell in NOTEBOOK["cells"]})) == (
        4,
        len(NOTEBOOK["cells"]),
    )
