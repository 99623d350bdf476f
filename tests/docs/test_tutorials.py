"""Pages of docs that readers follow: every code block executed as written, from top to bottom, in an empty folder.

A block whose first line has `title="FILE"` is written to that file. Of the others `sh` and `python` are run,
each by itself; `py` and `console`, which need a server, a browser, GPUs or data, are only parsed; `text` is what the block before it must have printed, where `...` stands for anything.
"""

import contextlib
import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from sweet_rl import cli
from tests.conftest import ROOT

PAGES = [ROOT / f"docs/{name}.md" for name in ("your_world", "train_sweet", "train_offline", "reference")]
LONG = [ROOT / f"docs/{name}.md" for name in ("export_and_credit", "extend", "credit")]
MOST_LINES = 60

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELLS = {
    "sh": ["bash", "-euo", "pipefail", "-c"],
    "python": [sys.executable, "-c"],
    "py": [sys.executable, "-c", "import ast, sys; ast.parse(sys.argv[1])"],
    "console": ["bash", "-n", "-c"],
}
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    language: str
    title: str
    text: str
    line: int


def blocks(page):
    text = page.read_text()
    lines = ((found, text.count("\n", 0, found.start()) + 1) for found in _BLOCK.finditer(text))
    found = [Block(match[1], match[2] or "", match[3], line) for match, line in lines]
    assert len(found) * 2 == len(re.findall("^```", text, re.MULTILINE)), "a fence that is not a block's"
    return found


def execute(page, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    home = folder / "here"
    home.mkdir()
    printed = ""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.title:
            (home / block.title).parent.mkdir(parents=True, exist_ok=True)
            (home / block.title).write_text(block.text)
        elif block.language == "text":
            assert doctest.OutputChecker().check_output(block.text, printed, _SAME), f"{where}: {printed}"
        else:
            command = [*_SHELLS[block.language], block.text]
            with subprocess.Popen(
                command, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            ) as process:  # fmt: skip
                try:
                    printed, wrong = process.communicate()
                finally:  # with the servers that it started, also where this test is stopped
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            assert process.returncode == 0, f"{where}: {printed}{wrong}"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", PAGES + LONG, ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(page, tmp_path):
    execute(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_is_short(page):
    code = [block for block in blocks(page) if block.language not in {"text", "console"}]
    assert code
    lines = [line for block in code for line in block.text.splitlines() if line.strip()]
    assert len(lines) < MOST_LINES


@pytest.mark.parametrize("page", PAGES + LONG, ids=lambda page: page.stem)
def test_commands_that_are_only_shown_have_their_flags(page, capsys):
    shown = "".join(block.text for block in blocks(page) if block.language == "console")
    for command in re.findall(r"^sweet-rl (.+)$", shown.replace("\\\n", " "), re.MULTILINE):
        stage, *words = shlex.split(command, comments=True)
        with contextlib.suppress(SystemExit):
            cli.run(stage, ["--help-all"])
        known = set(re.findall(r"--\w+", capsys.readouterr().out))
        assert {word for word in words if word.startswith("--")} - known == set(), command


@pytest.mark.parametrize(
    "text",
    [
        "```sh\necho 1\n```\n```text\n2\n```\n",
        "```sh\nfalse\n```\n",
        "```sh\ntrue\n",
        "```perl\nprint 1\n```\n",
    ],
)
def test_a_page_that_does_not_work_is_found_out(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises((AssertionError, KeyError)):
        execute(page, tmp_path)


def test_files_and_outputs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="own.py"\nX = 5\n```\nThen\n```sh\necho now\npython -c "import own; print(own.X)"\n```\n'
        "```text\nnow\n...\n```\n"
    )
    execute(page, tmp_path)
