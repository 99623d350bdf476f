"""How far the three gradings agree: answers of every kind, made from references, and what each grading gives them.

Answers differ from the reference in form, in structure, in what they return. The same task gives the same answers
everywhere; a kind that a reference offers no hold for (no operator to change, for example) gives None.

Run: python -m tests.grading.agreement [--tasks FILE] [--limit N] [--every N]
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl.grading.code import WAYS, CodeGrader, Grades
from sweet_rl.grading.hidden_tests import entry_point
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task, Trajectory
from sweet_rl.worlds import load_tasks


class Material(NamedTuple):
    """What answers are made of."""

    source: str
    name: str
    rng: random.Random

    def around(self, expression: str, before: str = "") -> str:
        """The reference inside a function of its name that returns `expression` of its `value`."""
        inner = textwrap.indent(f"{before}\n{self.source}\nvalue = {self.name}(*args, **kwargs)", " " * 4)
        return f"def {self.name}(*args, **kwargs):\n{inner}\n    return {expression}\n"

    def beside(self, top: str, expression: str, header: str = "*args, **kwargs") -> str:
        """The same with definitions at the top level, which published functions do not see."""
        inner = textwrap.indent(f"{self.source}\nvalue = {self.name}(*args, **kwargs)", " " * 4)
        return (
            f"{textwrap.dedent(top).strip()}\ndef {self.name}({header}):\n{inner}\n    return {expression}\n"
        )


Kind = Callable[[Material], str | None]


def _fenced(tag: str, before: str = "", after: str = "") -> Kind:
    return lambda m: f"{before}```{tag}\n{m.source}\n```{after}"


def _changed(change: Callable[[Any], ast.AST | None]) -> Kind:
    """One place in the reference, chosen by chance among those that can be changed, is changed."""

    def make(material: Material) -> str | None:
        tree = ast.parse(material.source)
        places = [node for node in ast.walk(tree) if change(node) is not None]
        if not places:
            return None
        old = places[material.rng.randrange(len(places))]
        new = change(old)
        vars(old).clear()
        old.__class__ = new.__class__
        vars(old).update(vars(new))
        return ast.unparse(ast.fix_missing_locations(tree))

    return make


_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.FloorDiv, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult}  # fmt: skip
_OTHER_COMPARISON = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}  # fmt: skip


def _operator(node: Any) -> ast.AST | None:
    is_known = isinstance(node, ast.BinOp) and type(node.op) in _OTHER
    return ast.BinOp(node.left, _OTHER[type(node.op)](), node.right) if is_known else None


def _comparison(node: Any) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in _OTHER_COMPARISON:
        return None
    other = _OTHER_COMPARISON[type(node.ops[0])]()
    return ast.Compare(node.left, [other, *node.ops[1:]], node.comparators)


def _constant(node: Any) -> ast.AST | None:
    is_number = isinstance(node, ast.Constant) and type(node.value) in {int, float}
    return ast.Constant(node.value + 1) if is_number else None


def _text_constant(node: Any) -> ast.AST | None:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
    return ast.Constant(node.value.swapcase() + ".") if is_text else None


def _condition(node: Any) -> ast.AST | None:
    return (
        ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        if isinstance(node, ast.If)
        else None
    )


def _parameters(material: Material) -> list[str]:
    for node in ast.walk(ast.parse(material.source)):
        if isinstance(node, ast.FunctionDef) and node.name == material.name:
            return [argument.arg for argument in node.args.args]
    return []


def _other_parameter_names(material: Material) -> str | None:
    source = material.source
    for parameter in _parameters(material):
        source = re.sub(rf"(?<![\w.'\"]){parameter}\b(?!['\"])", f"{parameter}_given", source)
    return source if source != material.source else None


def _swapped_parameters(material: Material) -> str | None:
    names = _parameters(material)
    if len(names) < 2:
        return None
    return material.around("value", "args = args[:2][::-1] + args[2:]")


def _hinted(hint: str, imports: str = "") -> Kind:
    def make(material: Material) -> str | None:
        names = _parameters(material)
        head = re.compile(rf"def {material.name}\(\s*({'|'.join(map(re.escape, names)) or '(?!)'})\b")
        hinted = head.sub(lambda match: f"{match[0]}: {hint}", material.source, count=1)
        return imports + hinted if hinted != material.source else None

    return make


def _tabs(material: Material) -> str:
    return re.sub(r"^(?: {4})+", lambda it: "\t" * (len(it[0]) // 4), material.source, flags=re.MULTILINE)


def _documented(material: Material) -> str:
    return material.around("value", '"""Use it so:\n\n```python\nvalue\n```\n"""')


def _wrong(name: str) -> str:
    return f"def {name}(*args, **kwargs):\n    return 'wrong'\n"


def _with_helper(material: Material) -> str:
    helper = re.sub(rf"\b{material.name}\b", "helper", material.source)
    return f"{helper}\ndef {material.name}(*args, **kwargs):\n    return helper(*args, **kwargs)\n"


def _recursive(material: Material) -> str:
    """Its own name is that of the outer function, which published code does not see."""
    helper = textwrap.indent(re.sub(rf"\b{material.name}\b", "helper", material.source), " " * 4)
    again = f"{material.name}(*args, again=True, **kwargs)"
    return (
        f"def {material.name}(*args, again=False, **kwargs):\n{helper}\n"
        f"    return helper(*args, **kwargs) if again else {again}\n"
    )


_POINT = "from dataclasses import dataclass\n@dataclass\nclass Box:\n    content: object\n    size: int = 1\n"

KINDS: dict[str, Kind] = {
    "the reference": lambda m: m.source,
    # what it stands in
    "fence: python": _fenced("python"),
    "fence: none": _fenced(""),
    "fence: py": _fenced("py"),
    "fence: Python": _fenced("Python"),
    "fence: python3": _fenced("python3"),
    "fence: python, words around": _fenced("python", "Here is the function.\n\n", "\n\nIt does what you asked."),
    "fence: py, words around": _fenced("py", "Here is the function.\n\n", "\n\nIt does what you asked."),
    "fence: not closed": lambda m: f"```python\n{m.source}\n",
    "fence: not opened": lambda m: f"{m.source}\n```",
    "fence: tildes": lambda m: f"~~~python\n{m.source}\n~~~",
    "fence: in the docstring": _documented,
    "fences: the second is right": lambda m: f"```python\n{_wrong(m.name)}```\nBetter:\n```python\n{m.source}\n```",
    "fences: the first is right": lambda m: f"```python\n{m.source}\n```\nNot so:\n```python\n{_wrong('other')}```",
    "words before": lambda m: f"Sure, here is the function:\n\n{m.source}",
    "words behind": lambda m: f"{m.source}\n\nIt does what you asked for.",
    "a blank before": lambda m: f" {m.source}",
    "indented": lambda m: textwrap.indent(m.source, "    "),
    "empty lines around": lambda m: f"\n\n{m.source}\n\n   \n",
    "Windows line ends": lambda m: m.source.replace("\n", "\r\n"),
    "tabs": _tabs,
    "byte order mark": lambda m: "\ufeff" + m.source,
    "a word of the filter": lambda m: f"# a pseudo-random sudoku\n{m.source}",
    "import of os": lambda m: f"import os\n{m.source}",
    "nothing": lambda _: "",
    "half of it": lambda m: m.source[: len(m.source) // 2],
    # how it is built
    "helper at the top": _with_helper,
    "helper inside": lambda m: m.around("value"),
    "helper handed in by default": lambda m: f"def same(x):\n    return x\n{m.beside('', 'same(value)', '*args, same=same, **kwargs')}",
    "constant at the top": lambda m: m.beside("NOTHING = 0", "[value, NOTHING][0]"),
    "constant as default": lambda m: m.beside("NOTHING = 0", "[value, nothing][0]", "*args, nothing=NOTHING, **kwargs"),
    "import at the top": lambda m: m.beside("import copy", "copy.copy(value)"),
    "import inside": lambda m: m.around("copy.copy(value)", "import copy"),
    "two functions, the other first": lambda m: f"def other(x):\n    return x\n\n{m.source}",
    "state at the top": lambda m: m.beside("seen = []", "[value, seen.append(1)][0]"),
    "state in a default": lambda m: m.beside("", "[value, seen.append(1)][0] if not seen else None", "*args, seen=[], **kwargs"),
    "a global": lambda m: m.around("[value, globals().update(seen_once=1)][0]"),
    "calls itself": _recursive,
    "dataclass at the top": lambda m: m.beside(_POINT, "Box(value).content"),
    "dataclass as default": lambda m: m.beside(_POINT, "box(value).content", "*args, box=Box, **kwargs"),
    "dataclass inside": lambda m: m.around("Box(value).content", _POINT),
    "dataclass inside, later annotations": lambda m: "from __future__ import annotations\n" + m.around("Box(value).content", _POINT),
    "NamedTuple inside": lambda m: m.around("Box(value).content", "from typing import NamedTuple\nclass Box(NamedTuple):\n    content: object\n"),
    "Enum inside": lambda m: m.around("[value, E.A][E.A.value]", "from enum import Enum\nclass E(Enum):\n    A = 0\n"),
    "abstract class inside": lambda m: m.around("B().give()", "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def give(self): ...\nclass B(A):\n    def give(self):\n        return value\n"),
    "static method": lambda m: f"class Holder:\n    @staticmethod\n{textwrap.indent(m.source, '    ')}\n{m.name} = Holder.{m.name}\n",
    "a class that is called": lambda m: f"class {m.name}:\n    def __new__(cls, *args, **kwargs):\n{textwrap.indent(m.source, ' ' * 8)}\n        return {m.name}(*args, **kwargs)\n",
    "lambda": lambda m: f"{m.source}\n{m.name} = lambda *args, function={m.name}, **kwargs: function(*args, **kwargs)\n",
    "decorated": lambda m: f"import functools\ndef same(function):\n    @functools.wraps(function)\n    def inner(*args, **kwargs):\n        return function(*args, **kwargs)\n    return inner\n@same\n{m.source}\n",
    "partial": lambda m: f"import functools\n{m.source}\n{m.name} = functools.partial({m.name})\n",
    "async": lambda m: f"async {m.source}" if m.source.startswith("def ") else None,
    "generator": lambda m: m.around("None", "").replace("    return None\n", "    yield value\n"),
    "hint: imported": _hinted("Optional[Any]", "from typing import Any, Optional\n"),
    "hint: not imported": _hinted("Optional[Any]"),
    "hint: as text": _hinted("'Optional[Any]'"),
    "hint: later annotations": _hinted("Optional[Any]", "from __future__ import annotations\n"),
    "type hints read": lambda m: m.around("[value, typing.get_type_hints(inner)][0]", "import typing\ndef inner(x: 'int') -> int: ...\n"),
    "match statement": lambda m: m.around("found", "").replace("    return found\n", "    match value:\n        case found:\n            return found\n"),
    "other parameter names": _other_parameter_names,
    "prints": lambda m: m.around("[value, print(value, flush=True)][0]", "print('begin')"),
    "try-out, guarded": lambda m: f"{m.source}\nif __name__ == '__main__':\n    raise SystemExit(1)\n",
    "try-out, not guarded": lambda m: f"{m.source}\nprint({m.name}())\n",
    "try around": lambda m: f"{m.around('value')}".replace("    value =", "    try:\n        value =").replace("    return value\n", "    except Exception:\n        raise\n    return value\n"),
    "pickled": lambda m: m.around("pickle.loads(pickle.dumps(value))", "import pickle"),
    "a class of its own pickled": lambda m: m.beside("class Box:\n    pass", "[value, pickle.dumps(box())][0]", "*args, box=Box, pickle=__import__('pickle'), **kwargs"),
    "looks at itself": lambda m: m.around("value if inspect.isfunction(inner) and __name__ and __file__ else None", "import inspect\ndef inner(): ...\n"),
    "an event loop": lambda m: m.around("asyncio.run(inner(value))", "import asyncio\nasync def inner(x):\n    return x\n"),
    "a thread": lambda m: m.around("found[0]", "import threading\nfound = []\n").replace("    return found", "    thread = threading.Thread(target=found.append, args=(value,))\n    thread.start()\n    thread.join()\n    return found"),
    "names in other letters": lambda m: m.around("größe", "").replace("value = ", "größe = "),
    # what it returns
    "operator": _changed(_operator),
    "comparison": _changed(_comparison),
    "number off by one": _changed(_constant),
    "text": _changed(_text_constant),
    "condition": _changed(_condition),
    "swapped arguments": _swapped_parameters,
    "None": lambda m: m.around("None"),
    "early return": lambda m: m.around("value", "if args:\n    return None"),
    "exception": lambda m: m.around("1 / 0"),
    "float for int": lambda m: m.around("float(value) if type(value) is int else value"),
    "int for float": lambda m: m.around("int(value) if type(value) is float else value"),
    "rounded": lambda m: m.around("round(value, 2) if type(value) is float else value"),
    "float, one bit off": lambda m: m.around("math.nextafter(value, 9e99) if type(value) is float else value", "import math"),
    "Fraction for a number": lambda m: m.around("Fraction(value) if type(value) in (int, float) else value", "from fractions import Fraction"),
    "text of it": lambda m: m.around("str(value)"),
    "in a list": lambda m: m.around("[value]"),
    "tuple for list": lambda m: m.around("tuple(value) if type(value) is list else value"),
    "list for tuple": lambda m: m.around("list(value) if type(value) is tuple else value"),
    "frozenset for set": lambda m: m.around("frozenset(value) if type(value) is set else value"),
    "OrderedDict for dict": lambda m: m.around("OrderedDict(reversed(value.items())) if type(value) is dict else value", "from collections import OrderedDict"),
    "subclass of its type": lambda m: m.around("T(value)", "").replace("    return T", "    class T(type(value)): pass\n    return T"),
    "iterator of it": lambda m: m.around("iter(value) if type(value) is list else value"),
    "array of it": lambda m: m.around("array('d', value) if type(value) is list else value", "from array import array"),
    "its type": lambda m: m.around("type(value)"),
    "always equal": lambda m: m.around("Equal()", "class Equal:\n    def __eq__(self, other): return True\n"),
    "never equal": lambda m: m.around("Odd()", "class Odd:\n    def __eq__(self, other): raise ValueError\n"),
    "ends the process": lambda m: m.around("value", "raise SystemExit"),
    "another name": lambda m: re.sub(rf"\b{m.name}\b", "another_name", m.source),
    "deletes its name": lambda m: f"{m.source}\ndel {m.name}\n",
    "empty function": lambda m: f"def {m.name}(*args, **kwargs):\n    pass\n",
    # how long it takes
    "slow: sleeps in its first test": lambda m: m.around("value", "import time\nif not globals().setdefault('slept', []):\n    globals()['slept'].append(1)\n    time.sleep(9)"),
    "slow: loops": lambda m: m.around("value", "while True:\n    pass"),
    "slow: sleeps": lambda m: m.around("value", "import time\ntime.sleep(9)"),
    "slow: the alarm caught": lambda m: m.around("value", "import time\ntry:\n    time.sleep(9)\nexcept Exception:\n    pass"),
}  # fmt: skip


GROUPS = {
    "form: fences, words, the filter": "fence: python",
    "structure: helpers, classes, hints": "helper at the top",
    "values: what it returns": "operator",
    "time: what it waits for": "slow: sleeps in its first test",
}
"""Groups of kinds by the first of each."""


def answers(source: str, name: str, task_id: str) -> dict[str, str]:
    """Answers by kind."""
    made = {
        kind: make(Material(source.strip("\n"), name, random.Random(f"{task_id} {kind}")))
        for kind, make in KINDS.items()
    }
    return {kind: text for kind, text in made.items() if text is not None}


SLOW = "slow"
SLOW_TASKS, SLOW_TESTS = 1, 3
TIMEOUT_S, SHORT_TIMEOUT_S = 10.0, 0.5
HEADER = f"{'%':<38}{'answers':>8}" + "".join(f"{way:>12}{'success':>9}" for way in WAYS) + f"{'agree':>9}"


def is_stable(task: Task) -> bool:
    """Whether a reference gives the same values twice and can be changed: no chance, no clock, no syntax error."""
    try:
        ast.parse(task.ground_truth)
    except SyntaxError:
        return False
    return not any(word in task.ground_truth for word in ("random", "now(", "today(", "time.time"))


def made(tasks: Sequence[Task], every: int) -> list[tuple[str, Trajectory]]:
    """Answers with their kinds: of each task every so many kinds; of the slow kinds only the first tasks'."""
    order = {kind: number for number, kind in enumerate(KINDS)}
    found = [
        (kind, Trajectory(_short(task) if kind.startswith(SLOW) else task, (), text))
        for place, task in enumerate(tasks)
        for kind, text in answers(task.ground_truth, entry_point(task), task.task_id).items()
        if (place < SLOW_TASKS if kind.startswith(SLOW) else (order[kind] + place) % every == 0)
    ]
    return sorted(found, key=lambda one: order[one[0]])


def _short(task: Task) -> Task:
    return replace(task, test_cases=dict(list(task.test_cases.items())[:SLOW_TESTS]))


def grade(kinds: Sequence[str], trajectories: Sequence[Trajectory]) -> list[Grades]:
    """All grades of all answers; only those that are meant to need it meet a short time limit."""
    slow = next((number for number, kind in enumerate(kinds) if kind.startswith(SLOW)), len(kinds))
    found: list[Grades] = []
    for part, timeout_s in ((trajectories[:slow], TIMEOUT_S), (trajectories[slow:], SHORT_TIMEOUT_S)):
        with Sandbox(timeout_s=timeout_s) as sandbox:
            found += CodeGrader(sandbox).grade_all(part)
    return found


def table(kinds: Sequence[str], grades: Sequence[Grades]) -> list[str]:
    """A line for each kind: means and successes in percent, and how many answers have three equal grades."""
    lines = [HEADER]
    for kind in dict.fromkeys(kinds):
        lines.append(_line(kind, [one for other, one in zip(kinds, grades, strict=True) if other == kind]))
    order, starts = list(KINDS), [list(KINDS).index(first) for first in GROUPS.values()]
    numbers = [order.index(kind) for kind in kinds]
    for group, start, end in zip(GROUPS, starts, [*starts[1:], len(order)], strict=True):
        members = [one for number, one in zip(numbers, grades, strict=True) if start <= number < end]
        lines.append(_line(group, members))
    return [*lines, _line("all", grades)]


def _line(label: str, grades: Sequence[Grades]) -> str:
    values = [[getattr(one, way).value for way in WAYS] for one in grades]
    line = f"{label:<38}{len(values):>8}"
    for column in zip(*values, strict=True):
        known = [value for value in column if value is not None]
        mean, success = sum(known) / max(len(known), 1), known.count(1) / max(len(known), 1)
        line += f"{100 * mean:>12.1f}{100 * success:>9.1f}" if known else f"{'-':>12}{'-':>9}"
    return line + f"{sum(len(set(row)) == 1 for row in values):>9}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="mini:families:test")
    parser.add_argument("--limit", type=int, default=100, help="so many tasks, at most")
    parser.add_argument("--every", type=int, default=1, help="of each task only every so many kinds")
    arguments = parser.parse_args()
    tasks = [one for one in load_tasks(arguments.tasks, num_tasks=arguments.limit) if is_stable(one)]
    kinds, trajectories = zip(*made(tasks, arguments.every), strict=True)
    print(
        f"{len(tasks)} tasks of {Path(arguments.tasks).name}",
        *table(kinds, grade(kinds, trajectories)),
        sep="\n",
    )


if __name__ == "__main__":
    main()
