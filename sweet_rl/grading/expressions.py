"""Splits a test's expression: the part that runs beside an answer, and the part evaluated outside.

A test may hold what it expects, as in `f(3) == 7`, and use names of the reference's, as in `close(f(LIMIT), 7)`.
Only `f(3)` may come near an answer; the rest is evaluated in the reference's namespace, on the plain data that
`f(3)` has given, where nothing of the answer's runs.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sweet_rl.grading.sandbox.guest.run import VALUES

_CALL = re.compile(r"\s*([^\W\d]\w*)\((.*)\)\s*", re.DOTALL)
_MORE_THAN_A_CALL = re.compile(r"==|!=|[<>\\]|\)\s*[-+*/%&|^@.\[(]")
_QUOTED = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*\b(?!\s*=)")
_CONSTANTS = frozenset({"True", "False", "None"})
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Scope = _Comprehension | ast.Lambda
_NOT_ALONE = (ast.Starred, ast.Slice, ast.FormattedValue)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)

_INTERPRETERS = frozenset(
    "eval exec compile __import__ getattr setattr delattr hasattr vars open format type".split()
)
"""Builtins that take a text for a name, a program or a format."""

_OF_A_TEXT = frozenset({"format", "format_map", "substitute", "safe_substitute"})
_OF_A_TABLE = frozenset({"query", "eval"})
"""Methods that take what has been returned, or an argument, for a format or a program."""

_SAFE = re.compile(
    r"math|cmath|statistics|numbers|fractions|decimal|datetime|calendar|collections|itertools|functools|_?operator|json|copy|"
    r"heapq|bisect|textwrap|unicodedata|numpy|pandas|zoneinfo|uuid|base64|binascii|hashlib|html|urllib|difflib|random|enum|"
    r"dataclasses|typing|string|array"
)
"""Packages whose functions take data for data; but for these:"""

_UNSAFE = re.compile(
    r"attrgetter|methodcaller|Template|Formatter|eval|query|\bload\b|fromfile|genfromtxt|read_|make_|memmap|open"
)

Place = tuple[int | None, ...]
"""Of a part of an expression: first line and column, last line and column."""


class Meaning(NamedTuple):
    """What names in a task's tests mean, as running its reference shows.

    Args:
        under_test: those that an answer has to define.
        kinds: of the reference's others: "library", "class", "function", "object" of such a class, or "data".
        imports: statements for those of a library.
    """

    under_test: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = {}
    imports: Mapping[str, str] = {}


class Halves(NamedTuple):
    """A test's expression, divided.

    Args:
        inside: evaluated beside an answer: the value, or a tuple of values for `outside`.
        outside: what the test makes of the values; None where the value itself is compared.
        imports: statements that `inside` needs.
        given: expressions of which only the reference has the values; `inside` finds them under `VALUES`.
        why_whole: why it could not be divided although it holds more than calls: no answer may see it.
        places: of what runs inside, in the expression; of what could not be taken.
        parts: how many values `outside` needs.
    """

    inside: str
    outside: str | None = None
    imports: str = ""
    given: tuple[str, ...] = ()
    why_whole: str = ""
    places: frozenset[Place] = frozenset()
    parts: int = 1


def name_of_call(expression: str) -> str:
    """The function that an expression calls, where it is one call that uses no other name; else empty."""
    call = _CALL.fullmatch(expression)
    if not call or hasattr(builtins, call[1]):
        return ""
    arguments = _QUOTED.sub("''", call[2])
    if not _MORE_THAN_A_CALL.search(arguments) and _CONSTANTS.issuperset(_WORD.findall(arguments)):
        return call[1]
    tree = read(expression)  # which tells what stands in a text
    is_call = tree is not None and isinstance(tree.body, ast.Call) and isinstance(tree.body.func, ast.Name)
    others = (
        [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Compare)]
    )
    return call[1] if is_call and len(others) == 1 else ""


def read(expression: str) -> ast.Expression | None:
    """The expression's tree; None where it is none, which evaluating it says better."""
    try:
        return ast.parse(expression.strip(" \t"), mode="eval")
    except _UNREADABLE:
        return None


def halves(expression: str, meaning: Meaning, whole: frozenset[Place] = frozenset()) -> Halves:
    """Divide a test's expression; the parts at these places are not divided further."""
    tree = read(expression)
    if tree is None:
        return Halves(expression)
    divider = _Divider(meaning, tree, whole)
    is_use = divider.is_use(tree.body)
    try:
        rest = divider.visit(tree.body)
    except _NotDivisible as error:
        return Halves(expression, why_whole=str(error), places=frozenset({error.place}))
    if not divider.inside:
        return Halves(expression, why_whole="it calls no function that an answer has to define")
    inside, outside = ast.unparse(divider.inside[0]) if divider.given else expression, None
    if not is_use:
        inside = f"({''.join(f'{ast.unparse(piece)}, ' for piece in divider.inside)})"
        outside = ast.unparse(rest)
    imports, places = "\n".join(dict.fromkeys(divider.imports)), frozenset(divider.places)
    return Halves(inside, outside, imports, tuple(divider.given), "", places, len(divider.inside))


def around(expression: str, places: frozenset[Place], *, only_read: bool) -> frozenset[Place]:
    """The parts that these stand in, but for comparisons: what is done with a value, to be done inside."""
    tree, found = read(expression), set()
    nodes = [] if tree is None else list(ast.walk(tree))
    parents: dict[Any, ast.AST] = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    for node in nodes:
        parent = parents.get(node)
        if not isinstance(node, ast.expr) or _place(node) not in places:
            continue
        while parent is not None and (not isinstance(parent, ast.expr) or isinstance(parent, _NOT_ALONE)):
            parent = parents.get(parent)
        above = parents.get(parent)
        if isinstance(parent, ast.Attribute) and isinstance(above, ast.Call) and above.func is parent:
            parent = above
        if isinstance(parent, ast.Subscript) and parent.value is not node:
            continue  # a table in which the value is looked up, and which says what is expected
        reads = isinstance(parent, ast.Attribute | ast.Subscript) or (
            isinstance(parent, ast.Call) and parent.func is not node and not _given_to(parent)
        )
        compares = parent is None or any(isinstance(inner, ast.Compare) for inner in ast.walk(parent))
        if isinstance(parent, ast.expr) and (reads or not only_read) and not compares:
            found.add(_place(parent))
    return frozenset(found)


def _place(node: ast.expr) -> Place:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


class _NotDivisible(Exception):
    """The expected values cannot be kept from the answer; `place` is of what could not be taken."""

    def __init__(self, why: str, node: ast.expr) -> None:
        super().__init__(why)
        self.place = _place(node)


class _Divider(ast.NodeTransformer):
    """Takes the parts out that need an answer, and leaves the places of their values in the tuple."""

    def __init__(self, meaning: Meaning, tree: ast.Expression, whole: frozenset[Place]) -> None:
        self.inside: list[ast.expr] = []
        self.imports: list[str] = []
        self.given: list[str] = []
        self.places: list[Place] = []
        self._meaning = meaning
        self._bound = bound(tree)
        self._whole = whole

    def visit(self, node: ast.AST) -> ast.AST:
        """Divide an expression; raises `_NotDivisible` where the answer could change its meaning."""
        if not isinstance(node, ast.expr):
            return super().generic_visit(node)
        if not self._needs_answer(node):
            return node
        if _place(node) in self._whole:
            return self._take_all(node)
        if isinstance(node, ast.Name):
            raise _NotDivisible(f"it needs {node.id!r}, to which an answer could give any meaning", node)
        if self.is_use(node):
            return self._take(node)
        given = _given_to(node) if isinstance(node, ast.Call) else []
        is_handed_on = any(isinstance(one, ast.Name) and self._is_answers(one) for one in given)
        if is_handed_on or self._interprets(node):
            return self._take_all(node, may_judge=True)
        called = [node.func] if isinstance(node, ast.Call) else []
        if isinstance(node, _Scope) or any(isinstance(one, ast.Lambda) for one in [*called, *given]):
            return self._parts_or_all(node)
        return super().generic_visit(node)

    def _parts_or_all(self, node: ast.expr) -> ast.AST:
        """A comprehension, a lambda and what calls it: its parts where they can stand alone, else all of it."""
        ways: list[Callable[[Any], Any]] = [super().generic_visit]
        if isinstance(node, _Comprehension):
            ways.append(self._called_for_each)
        if not isinstance(node, ast.Lambda):
            ways.append(self._take_all)
        before, reasons = (self.inside, self.given, self.places), []
        for way in ways:
            self.inside, self.given, self.places = list(before[0]), list(before[1]), list(before[2])
            try:
                made: ast.AST = way(copy.deepcopy(node))
                return made
            except _NotDivisible as error:
                reasons.append(error)
        raise reasons[:2][-1]

    def _called_for_each(self, node: _Comprehension) -> ast.AST:
        """The calls of `all(f(n) == m for n, m in pairs)`, of arguments that the reference's process collects.

        Outside, their values are taken one after the other, by a condition behind those that ask no answer.
        """
        if any(self._needs_answer(one.iter) for one in node.generators):
            raise _NotDivisible(
                "it goes through what an answer returns, calls again for each of it, and compares", node
            )
        *_, last = node.generators
        asking = [test for test in last.ifs if self._needs_answer(test)]
        last.ifs = [test for test in last.ifs if test not in asking]
        every = " ".join(ast.unparse(generator).strip() for generator in node.generators)
        taken: list[ast.expr] = []

        def place(part: ast.AST) -> ast.AST:
            if not isinstance(part, ast.expr) or not self.is_use(part):
                return part
            arguments: list[str] = []

            def lifted(inner: ast.AST) -> ast.AST:
                if not isinstance(inner, ast.expr) or isinstance(inner, _NOT_ALONE):
                    return inner
                if self._needs_answer(inner):
                    return inner
                if not (_loaded(inner) & self._bound) - bound(inner):
                    return self._supplied(inner)
                arguments.append(ast.unparse(inner))
                return _parsed(f"_a{len(arguments) - 1}")

            part = _changed(part, lifted)
            self.given.append(f"[({''.join(f'{one}, ' for one in arguments)}) {every}]")
            names = "".join(f"_a{at}, " for at in range(len(arguments)))
            each = f"for ({names}) in {VALUES}[{len(self.given) - 1}]"
            self.inside.append(_parsed(f"[{ast.unparse(part)} {each}]"))
            number = len(self.inside) - 1
            taken.append(_parsed(f"[_of_{number} := {VALUES}[{number}].pop(0)]"))
            return _parsed(f"_of_{number}")

        free = list(last.ifs)
        last.ifs += asking
        node = _changed(node, place)
        last.ifs[len(free) : len(free)] = taken
        return node

    def _take_all(self, node: ast.expr, *, may_judge: bool = False) -> ast.expr:
        if any(isinstance(inner, ast.Compare) for inner in ast.walk(node)):
            raise _NotDivisible(
                "it compares inside a comprehension or lambda, where a function is handed on, or where what an "
                "answer returns is taken for a name, a format or a program",
                node,
            )
        for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and not may_judge):
            package = self._package(call)
            of_answer = self._needs_answer(call) or _loaded(call) & self._bound
            if of_answer and package not in {"", "itertools", "functools"} and len(_given_to(call)) > 1:
                raise _NotDivisible(
                    f"it hands what an answer returns to {ast.unparse(call.func)} with more", node
                )
        return self._take(node)

    def _take(self, node: ast.expr) -> ast.expr:
        if outer := (_loaded(node) & self._bound) - bound(node):
            raise _NotDivisible(f"it calls again for each {min(outer)!r}, and compares", node)
        self.places.append(_place(node))
        self.inside.append(_changed(node, self._supplied))
        return _parsed(f"{VALUES}[{len(self.inside) - 1}]")

    def _supplied(self, node: ast.AST) -> ast.AST:
        """What takes a part's place inside, where only the reference has it: its data."""
        names = _loaded(node) - bound(node) - self._bound - self._meaning.under_test
        self.imports += [statement for name, statement in self._meaning.imports.items() if name in names]
        kinds = {self._meaning.kinds[name] for name in names if name in self._meaning.kinds} - {"library"}
        if not kinds or not isinstance(node, ast.expr) or isinstance(node, _NOT_ALONE):
            return node
        if self._needs_answer(node) or (_loaded(node) & self._bound) - bound(node):
            return node
        text = ast.unparse(node)
        if text not in self.given:
            self.given.append(text)
        place = f"{VALUES}[{self.given.index(text)}]"
        if kinds == {"class"}:  # by the answer's own class where it has one, as in `f(Node(1))`
            own = sorted(names - self._meaning.imports.keys())
            has = " and ".join(f"{name!r} in globals()" for name in own)
            place = f"{text} if {has} else {place}"
        return _parsed(place)

    def _needs_answer(self, node: ast.AST) -> bool:
        return any(isinstance(inner, ast.Name) and self._is_answers(inner) for inner in ast.walk(node))

    def _is_answers(self, name: ast.Name) -> bool:
        return name.id in self._meaning.under_test and name.id not in self._bound

    def is_use(self, node: ast.AST) -> bool:
        """A call of the answer's, or what is done with an object of one of its classes."""
        name = root(node)
        if not isinstance(name, ast.Name) or not self._is_answers(name):
            return False
        if self._meaning.kinds.get(name.id) in {"class", "object"}:
            return True
        called = (
            node.func if isinstance(node, ast.Call) else None
        )  # `f`, `a.f`, what a call has returned: `f(1)(2)`
        while isinstance(called, ast.Attribute):
            called = called.value
            if isinstance(called, ast.Call):
                return False
        return isinstance(called, ast.Name | ast.Call)

    def _interprets(self, node: ast.expr) -> bool:
        """Whether somewhere in a chain of calls what an answer returns is taken for a name, format or program."""
        if isinstance(node, ast.JoinedStr):
            specs = [part.format_spec for part in node.values if isinstance(part, ast.FormattedValue)]
            return any(one is not None and self._needs_answer(one) for one in specs)
        chain = list(_chain(node))
        for call in (one for one in chain if isinstance(one, ast.Call)):
            given = [one for one in _given_to(call) if self._needs_answer(one)]
            if isinstance(call.func, ast.Attribute):
                of_text = call.func.attr in _OF_A_TEXT and self._needs_answer(call.func.value)
                if of_text or (call.func.attr in _OF_A_TABLE and given):
                    return True
            if isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id):
                of_one = call.func.id == "type"
                if given and call.func.id in _INTERPRETERS and len(_given_to(call)) != of_one:
                    return True
                if any(self._interprets(one) for one in given):
                    return True
            package = self._package(call)
            of_pattern = package == "re" and not (call.args and self._needs_answer(call.args[0]))
            is_known = _SAFE.fullmatch(package) and not _UNSAFE.search(ast.unparse(call.func))
            if given and package and not of_pattern and not is_known:
                return True
        return False

    def _package(self, call: ast.Call) -> str:
        """The package whose function is called, where it is one of a library."""
        name = root(call.func)
        statement = self._meaning.imports.get(name.id, "") if isinstance(name, ast.Name) else ""
        return statement.split()[1].partition(".")[0] if statement else ""


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _changed(node: Any, change: Callable[[ast.AST], ast.AST]) -> Any:
    """The tree with other nodes in it, the outer ones asked first; what is put in stays as it is."""
    if isinstance(node, list):
        return [_changed(one, change) for one in node]
    if not isinstance(node, ast.AST):
        return node
    other = change(node)
    if other is node:
        for field, old in ast.iter_fields(node):
            setattr(node, field, _changed(old, change))
    return other


def bound(tree: ast.AST) -> frozenset[str]:
    """Names that an expression itself gives a value: loop variables, parameters, `:=`."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)})


def root(node: ast.AST) -> ast.AST:
    """What a chain of calls, attributes and subscripts begins with."""
    *_, first = _chain(node)
    return first


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
        yield node


def _given_to(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _loaded(node: ast.AST) -> frozenset[str]:
    return frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
