"""The notebook of docs/notebooks: its cells executed in order, plainly and where an event loop runs, as in Jupyter."""

import ast
import asyncio
import contextlib
import io
import json
import re

import pytest

from tests.conftest import ROOT

PATH = ROOT / "docs/notebooks/five_episodes.ipynb"
NOTEBOOK = json.loads(PATH.read_text())
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def execute():
    """What each cell prints, and what the last one shows."""
    names, printed = {}, []
    for cell in CELLS:
        *lines, last = ast.parse("".join(cell["source"])).body
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module(lines, []), "cell", "exec"), names)
            if isinstance(last, ast.Expr):
                shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), names)
        printed.append(out.getvalue())
    return printed, shown


def episodes_in(page):
    """The rows of a page in a frame, without what a run says of itself."""
    assert page.startswith('<iframe title="episodes.html"')
    return re.findall(r"(?:delivery costs \d+|We don.{1,9}t charge for \w+)\.", page)


@pytest.mark.parametrize("in_a_loop", [False, True], ids=["plainly", "in a loop"])
def test_the_notebook_works_as_written_and_has_its_outputs(in_a_loop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def kernel():
        return execute()

    printed, shown = asyncio.run(kernel()) if in_a_loop else execute()
    outputs = [cell["outputs"] for cell in CELLS]
    streams = ["".join("".join(one["text"]) for one in some if "text" in one) for some in outputs]
    assert printed == streams
    assert streams[3] == "[1.0, 0.5, 1.0, 1.0, 1.0]\n"
    kept = outputs[-1][0]["data"]
    assert "".join(kept["text/plain"]) == repr(shown)
    assert episodes_in("".join(kept["text/html"])) == episodes_in(shown._repr_html_())
    assert len(episodes_in(shown._repr_html_())) > 5


def test_the_notebook_is_short_and_needs_no_network():
    lines = [line for cell in CELLS for line in "".join(cell["source"]).splitlines() if line.strip()]
    assert len(lines) <= 30
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    assert not re.findall(r"(?:src|href)=(?:&quot;|[\\'\"])*(?:https?:)?//|/tmp/", PATH.read_text())
    names = {cell["id"] for cell in NOTEBOOK["cells"]}
    assert (NOTEBOOK["nbformat"], len(names)) == (4, len(NOTEBOOK["cells"]))
