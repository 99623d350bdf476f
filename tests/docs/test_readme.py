"""The README's first screen: its lines of Python run as written, its numbers are those of docs/mini.md."""

import re
import subprocess
import sys

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


def test_the_lines_of_python_run_as_written(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    solved, score = done.stdout.splitlines()
    right, of = map(int, re.fullmatch(r"(\d+) of (\d+) answers are right", solved).groups())
    assert 0 < right < of == 80
    assert float(score.split()[0]) < 1
    assert (tmp_path / "episodes.html").stat().st_size > 100_000


def test_the_table_says_what_the_study_said():
    mini = (ROOT / "docs/mini.md").read_text().partition("## Results")[2]
    rows = re.findall(
        r"^\| \**(.+?)\**(?:: before)? \| \**([\d.]+) %\** \| \**(\d+) %\** \|$", README, re.MULTILINE
    )
    assert [name for name, *_ in rows] == [
        "warm start",
        "rejection fine-tuning",
        "trajectory DPO",
        "SWEET-RL, blind critic",
        "SWEET-RL, wrong solution",
        "SWEET-RL",
    ]
    for name, success, asked in rows:
        (cells,) = re.findall(rf"^\| \**{name}\** \|(.+)\|$", mini, re.MULTILINE)[:1]
        of_study = [cell.strip(" *") for cell in cells.split("|")]
        assert of_study[0].split()[0].strip("*") == success
        assert round(100 * float(of_study[1])) == int(asked)


def test_the_picture_is_there_and_small():
    assert "docs/images/report.png" in README
    assert (ROOT / "docs/images/report.png").stat().st_size < 100_000
