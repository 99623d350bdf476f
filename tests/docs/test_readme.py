"""The first screen of the README and of the site: their lines of Python run as written, their numbers are those of the study."""

import json
import re
import sys
from statistics import fmean

import pytest
from credit_methods import MEASURES, table
from mini import COMMITTED, SUCCESS, markdown, read_full_study

from sweet_rl.studies.sweet.results import METHODS
from tests.conftest import ROOT, ran

SHOWN = {"README.md": "warm_start rft dpo sweet_blind sweet_wrong sweet insider"}
SHOWN["docs/index.md"] = "warm_start dpo sweet_blind sweet"
README = (ROOT / "README.md").read_text()


def test_the_lines_of_python_run_as_written(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = ran(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    solved, score = done.stdout.splitlines()
    right, of = map(int, re.fullmatch(r"(\d+) of (\d+) answers are right", solved).groups())
    assert 0 < right < of == 80
    assert float(score.split()[0]) < 1
    assert (tmp_path / "episodes.html").stat().st_size > 100_000


@pytest.mark.parametrize("page", SHOWN)
def test_the_table_says_what_the_study_said(page):
    full = read_full_study(COMMITTED)
    head, *rows = re.findall(r"^\| (.+ trades? .*|.+ %.*)\|$", (ROOT / page).read_text(), re.MULTILINE)
    trades = [int(count) for count in re.findall(r"(\d+) trade", head)]
    assert trades == list(full.seeds)
    names = {title: name for name, (title, _) in METHODS.items()}
    found = {}
    for row in rows:
        title, *cells = (cell.strip(" *").removesuffix(" (before training)") for cell in row.split("|"))
        found[names[title]] = [float(cell.removesuffix(" %")) for cell in cells]
    assert list(found) == SHOWN[page].split()
    for name, numbers in found.items():
        of_seeds = ([seed.numbers[name][SUCCESS] for seed in full.seeds[k].values()] for k in trades)
        assert numbers == [round(100 * fmean(values), 1) for values in of_seeds]


def test_the_tables_of_the_study_are_those_of_its_file():
    full = (ROOT / "benchmarks/results/README.md").read_text()
    tables = markdown(read_full_study(COMMITTED)).split("\n\n")
    for head, count in (("| success %", 3), ("| K = 10 ", 1)):  # the command prints the others
        wanted = [table for table in tables if table.startswith(head)]
        assert len(wanted) == count
        assert [table for table in wanted if table not in full] == []
    page = (ROOT / "docs/results.md").read_text()
    shown = page.split(tables[0].splitlines()[0])[1].split("\n\n")[0].splitlines()[2:]
    assert len(shown) > 10
    assert [row for row in shown if row not in tables[0].splitlines()] == []
    _, _, success, *others = markdown(read_full_study(COMMITTED.with_name("real_small.json"))).split("\n\n")
    assert [table for table in (success, *others) if table not in full] == []
    assert [row for row in success.splitlines()[2:8] if row not in page] == []


def test_what_is_said_of_credit_is_in_its_file():
    cells = json.loads(COMMITTED.with_name("credit_methods.json").read_text())["cells"]
    measured = [row for what, some in MEASURES.items() for one in some for row in table(cells, what, one)]
    full = (ROOT / "benchmarks/results/README.md").read_text().split("\n## Credit of turns\n")[1]
    rows = re.findall(r"^\| ([a-z].*) \|$", full.split("\n## ")[0], re.MULTILINE)
    assert len([row for row in rows if row.split(" | ") in measured]) == len(rows) > 40
    told = re.findall(r"-?0\.\d\d \[-?0.\d\d, -?0.\d\d\]", (ROOT / "docs/credit.md").read_text())
    assert len([one for one in told if any(one in row for row in measured)]) == len(told) == 5
