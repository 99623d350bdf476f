"""YAML that would hold a reader up, or fell it: an error that names the file and the line, within two seconds."""

import re
import time
from itertools import pairwise

import pytest

from sweet_rl.commands.archer_config import _compose
from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.runs import SETTINGS, read_settings
from sweet_rl.pipelines.pipeline import _parse

MANY = 100_000
NAMES = "abcdefghijkl"
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise(NAMES)
)
FILES = {
    "an alias of itself": ("a: &a\n  b: *a\n", 2),
    "a list of itself": ("\n- &a [*a]\n", 2),
    "a bomb": (BOMB, 6),
    "doubled": ("a0: &x0 [1]\n" + "".join(f"a{i}: &x{i} [*x{i - 1}, *x{i - 1}]\n" for i in range(1, 60)), 15),
    "brackets": ("a: 1\nb: " + "[" * MANY + "]" * MANY, 2),
    "brackets that stay open": ("a: " + "[" * MANY, 1),
    "braces": ("a: " + "{a: " * MANY, 1),
    "dashes": ("- " * MANY, 1),
    "questions": ("? " * MANY, 1),
    "steps": ("".join(" " * i + "a:\n" for i in range(3_000)), 51),
    "merged": ("a: &a {x: 1}\nb:\n  <<: [" + "*a, " * MANY + "]\n", 3),
    "a long number": ("a: " + "9" * MANY, 1),
    "a number of sixties": ("a: " + "1:" * MANY + "1", 1),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("reader", ["pipeline", "setting.yml", "archer"])
def test_a_hostile_file_is_refused(tmp_path, name, reader):
    text, line = FILES[name]
    file = tmp_path / (SETTINGS if reader == "setting.yml" else "mine.yaml")
    file.write_text(text)
    _compose("archer_debug", (), None)  # hydra is loaded before the clock runs
    read = {
        "pipeline": lambda: _parse(file),
        "setting.yml": lambda: read_settings(tmp_path),
        "archer": lambda: _compose("mine", (), str(tmp_path)),
    }[reader]
    started = time.monotonic()
    with pytest.raises(UsageError, match=rf"{re.escape(str(file))}, line {line}: this cannot be read"):
        read()
    assert time.monotonic() - started < 2


def test_a_file_of_ours_is_read(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, z: 3}\nc: *a\nd: '" + "9" * 5_000 + "'\n"
    )
    assert set(_parse(tmp_path / "mine.yaml").mapping) == {"a", "b", "c", "d"}
