"""Splits a test's expression: the part that runs beside an answer, and the part evaluated outside.

A test may hold what it expects, as in `f(3) == 7`. Only `f(3)` may then come near an answer; the comparison
is made outside, on the plain data that `f(3)` has given, where nothing of the answer's runs.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sweet_rl.grading.sandbox.guest.programs import VALUES

_CALL = re.compile(r"\s*([^\W\d]\w*)\(.*\)\s*", re.DOTALL)
_MORE_THAN_A_CALL = re.compile(r"==|!=|[<>\\]|\b(?:in|is|not)\b|\)\s*(?:[-+*/%&|^@.\[(]|(?:if|and|or|for)\b)")
_IMPORT = re.compile(r"^(?:import|from)\s", re.MULTILINE)
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class Halves(NamedTuple):
    """A test's expression, divided.

    Args:
        inside: evaluated beside an answer: the value, or a tuple of values for `outside`.
        outside: what the test makes of the values; None where the value itself is compared.
        imports: statements of the reference that `outside` needs.
        why_whole: why it could not be divided although it holds more than calls: no answer may see it.
    """

    inside: str
    outside: str | None = None
    imports: str = ""
    why_whole: str = ""


class _Reference(NamedTuple):
    """What a test may mean by a name, as the reference defines it."""

    builtins: frozenset[str] = frozenset()  # names of builtins that it gives to functions of its own
    classes: frozenset[str] = frozenset()
    imports: Mapping[str, str] = {}


@lru_cache(maxsize=100_000)
def halves(expression: str, reference: str) -> Halves:
    """Divide a test's expression; `reference` is the code that it was written for."""
    call = _CALL.fullmatch(expression)
    if call and not hasattr(builtins, call[1]) and not _MORE_THAN_A_CALL.search(expression):
        return Halves(expression)  # nearly always
    try:
        tree = ast.parse(expression.strip(" \t"), mode="eval")
    except _UNREADABLE:
        return Halves(expression)  # evaluating it reports what is wrong
    names = _read(reference)
    divider = _Divider(names, tree)
    try:
        rest = divider.visit(tree.body)
    except _NotDivisible as error:
        return Halves(expression, why_whole=str(error))
    if not divider.inside or (isinstance(rest, ast.Subscript) and rest.value is divider.values):
        return Halves(expression)
    used = {name.id for name in ast.walk(rest) if isinstance(name, ast.Name)}
    imports = "\n".join(dict.fromkeys(names.imports[name] for name in names.imports if name in used))
    inside = "".join(f"{ast.unparse(piece)}, " for piece in divider.inside)
    return Halves(f"({inside})", ast.unparse(rest), imports)


@lru_cache(maxsize=10_000)
def needed_imports(expressions: tuple[str, ...], reference: str) -> str:
    """The reference's imports whose names the arguments use: `f(datetime(2024, 5, 1))` needs `datetime`."""
    if not _IMPORT.search(reference):
        return ""
    imports = _read(reference).imports
    words = [re.findall(r"\w+", expression) for expression in expressions]
    called = {found[0] for found in words if found}  # which is for the answer to define
    used = set(itertools.chain.from_iterable(words)) - called
    return "\n".join(dict.fromkeys(imports[name] for name in imports if name in used))


@lru_cache(maxsize=1000)
def _read(reference: str) -> _Reference:
    try:
        body = ast.parse(reference).body
    except _UNREADABLE:
        return _Reference()
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
    imports = {
        alias.asname or alias.name.partition(".")[0]: ast.unparse(node)
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    own = frozenset(name for name in defined | classes if hasattr(builtins, name))
    return _Reference(own, frozenset(classes), imports)


class _NotDivisible(Exception):
    """The expected values cannot be kept from the answer."""


class _Divider(ast.NodeTransformer):
    """Takes the parts out that need an answer, and leaves the places of their values in the tuple."""

    def __init__(self, names: _Reference, tree: ast.Expression) -> None:
        self.inside: list[ast.expr] = []
        self.values = ast.Name(VALUES, ast.Load())
        self._names = names
        self._bound = _bound(tree)

    def visit(self, node: ast.AST) -> ast.AST:
        """Divide an expression; raises `_NotDivisible` where the answer could change its meaning."""
        if not isinstance(node, ast.expr):
            return super().generic_visit(node)
        if not any(isinstance(inner, ast.Name) and self._is_answers(inner) for inner in ast.walk(node)):
            return node
        if isinstance(node, ast.Name):
            raise _NotDivisible(f"it needs {node.id!r}, to which an answer could give any meaning")
        if isinstance(node, _SCOPES):
            return self._scope(node)
        if self._is_use(node):
            return self._take(node)
        if self._is_handed_on(node):
            return self._take(node, with_comparisons=False)
        return super().generic_visit(node)

    def _scope(self, node: ast.expr) -> ast.AST:
        """A comprehension or lambda: its parts where they can stand alone, else all of it."""
        before = list(self.inside)
        try:
            return super().generic_visit(copy.deepcopy(node))
        except _NotDivisible:
            self.inside = before
            return self._take(node, with_comparisons=False)

    def _take(self, node: ast.expr, *, with_comparisons: bool = True) -> ast.expr:
        if not with_comparisons and any(isinstance(inner, ast.Compare) for inner in ast.walk(node)):
            raise _NotDivisible(
                "it compares inside a comprehension or lambda, or where a function is handed on"
            )
        loaded = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if outer := (loaded & self._bound) - _bound(node):
            raise _NotDivisible(f"it calls again for each {min(outer)!r}, and compares")
        self.inside.append(node)
        return ast.Subscript(self.values, ast.Constant(len(self.inside) - 1), ast.Load())

    def _is_use(self, node: ast.expr) -> bool:
        """A call of the answer's, or what is done with an object of one of its classes."""
        root = _root(node)
        if not isinstance(root, ast.Name) or not self._is_answers(root):
            return False
        return root.id in self._names.classes or (isinstance(node, ast.Call) and _is_called(node.func))

    def _is_handed_on(self, node: ast.expr) -> bool:
        """A call of something else that is given a function of the answer's."""
        if not isinstance(node, ast.Call):
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        functions = [one for one in given if isinstance(one, ast.Name | ast.Lambda)]
        inner = itertools.chain.from_iterable(map(ast.walk, functions))
        return any(isinstance(name, ast.Name) and self._is_answers(name) for name in inner)

    def _is_answers(self, name: ast.Name) -> bool:
        """Whether only an answer, or the reference, gives this name its meaning."""
        known = hasattr(builtins, name.id) or name.id in self._names.imports or name.id in self._bound
        return name.id in self._names.builtins or not known


def _bound(tree: ast.AST) -> frozenset[str]:
    """Names that an expression itself gives a value: loop variables, parameters, `:=`."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)})


def _root(node: ast.AST) -> ast.AST:
    """What a chain of calls, attributes and subscripts begins with."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _is_called(node: ast.AST) -> bool:
    """Whether a call of this is the answer's: of `f`, `a.f`, or of what a call has returned: `f(1)(2)`."""
    while isinstance(node, ast.Attribute):
        node = node.value
        if isinstance(node, ast.Call):
            return False
    return isinstance(node, ast.Name | ast.Call)
