"""The contents of a function's variables, as far as their use shows.

The kinds are "text", "list", "dict", "number", "flag" (true or false) and "optional" (None unless given), and
"" for what is not known. Wording only ("the number of comments", "the title is empty"): nothing is executed,
and a guess that fails makes a sentence clumsy, not wrong.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

_STRONGEST_FIRST = ("dict", "text", "list", "number", "optional", "flag")
_KIND_BY_METHOD = {
    **dict.fromkeys(("append", "extend", "sort", "remove", "insert"), "list"),
    **dict.fromkeys(("items", "keys", "values", "get"), "dict"),
    **dict.fromkeys(("lower", "upper", "strip", "split", "replace", "title", "isdigit"), "text"),
    **dict.fromkeys(("startswith", "endswith", "splitlines"), "text"),
}
"""What a variable is whose method is called."""

_KIND_OF_CALL = {
    **dict.fromkeys(("split", "splitlines", "sorted", "list"), "list"),
    **dict.fromkeys(
        ("join", "lower", "upper", "strip", "replace", "title", "capitalize", "zfill", "str"), "text"
    ),
    **dict.fromkeys(("len", "sum", "int", "round", "abs"), "number"),
}
"""What a call gives."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The known properties of one function's variables.

    `keys` are the text keys that a dictionary is asked for, `options` the texts that a variable is compared
    with, `items` the variable that stands for one item of a list, `indexes` loop counters and their list.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)

    def kind(self, node: ast.expr) -> str:
        """What an expression gives, "" when that is not known."""
        match node:
            case ast.Name(id=name):
                kind = self.kinds.get(name, "")
            case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                kind = "flag"
            case ast.Constant(value=int() | float()) | ast.BinOp(op=ast.Sub() | ast.Mult() | ast.Div()):
                kind = "number"
            case ast.Constant(value=str()) | ast.JoinedStr():
                kind = "text"
            case ast.List() | ast.ListComp():
                kind = "list"
            case ast.Dict() | ast.DictComp():
                kind = "dict"
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
                kind = _KIND_OF_CALL.get(called, "")
            case ast.BinOp(op=ast.Add(), left=left, right=right) | ast.IfExp(body=left, orelse=right):
                kind = self.kind(left) or self.kind(right)
            case ast.Subscript(value=ast.Call() as whole, slice=ast.Slice()):
                kind = self.kind(whole)
            case _:
                kind = ""
        return kind


def scope_of(function: ast.AST) -> Scope:
    """Collect the properties that each variable's uses show."""
    clues: dict[str, set[str]] = defaultdict(set)
    scope = Scope()
    for node in ast.walk(function):
        for name, kind in (*_clues_of_statement(node), *_clues_of_expression(node)):
            clues[name].add(kind)
        _notes(node, scope)
    for name, found in clues.items():
        scope.kinds[name] = next(kind for kind in _STRONGEST_FIRST if kind in found)
    return scope


def _clues_of_statement(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.FunctionDef(args=arguments):
            for parameter, default in zip(arguments.args[::-1], arguments.defaults[::-1], strict=False):
                if isinstance(default, ast.Constant) and default.value is None:
                    yield parameter.arg, "optional"
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if kind := Scope().kind(value):
                yield name, kind
        case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
            yield name, "list"
        case ast.If(test=ast.Name(id=name)):
            yield name, "flag"


def _clues_of_expression(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _KIND_BY_METHOD:
            yield name, _KIND_BY_METHOD[attr]
        case ast.Call(func=ast.Name(id="sum" | "sorted" | "zip" | "enumerate" | "any" | "all"), args=args):
            yield from ((arg.id, "list") for arg in args if isinstance(arg, ast.Name))
        case ast.Call(func=ast.Name(id="max" | "min"), args=[ast.Name(id=name)]):
            yield name, "list"
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())):
            yield name, "dict"
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant() | ast.UnaryOp()):
            yield name, "list"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from _clues_of_comparison(left, op, right)
        case ast.BinOp(left=left, right=right) if "text" not in (Scope().kind(left), Scope().kind(right)):
            yield from ((side.id, "number") for side in (left, right) if isinstance(side, ast.Name))
        case ast.IfExp(test=ast.Name(id=name)):
            yield name, "flag"
        case ast.BoolOp(values=values):
            yield from ((value.id, "flag") for value in values if isinstance(value, ast.Name))


def _clues_of_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[tuple[str, str]]:
    match left, op, right:
        case ast.Constant(value=str()), ast.In() | ast.NotIn(), ast.Name(id=name):
            yield name, "list"  # a text or a list: the weaker of the two
        case ast.Name(id=name), ast.In() | ast.NotIn(), ast.List(elts=[ast.Constant(value=str()), *_]):
            yield name, "text"
        case ast.Name(id=name), _, ast.Constant():
            if kind := Scope().kind(right):
                yield name, kind
        case ast.Name(id=name), ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE(), _:
            yield name, "number"


def _notes(node: ast.AST, scope: Scope) -> None:
    match node:
        case (
            ast.For(target=ast.Name(id=item), iter=source)
            | ast.comprehension(target=ast.Name(id=item), iter=source)
        ):
            _note_loop(item, source, scope)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            _add(scope.keys, name, key)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]
        ):
            _add(scope.keys, name, key)
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str(option))]
        ):
            _add(scope.options, name, option)
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.List(elts=elts) | ast.Tuple(elts=elts)]
        ):
            for element in elts:
                if isinstance(element, ast.Constant) and isinstance(element.value, str):
                    _add(scope.options, name, element.value)


def _note_loop(item: str, source: ast.expr, scope: Scope) -> None:
    match source:
        case ast.Name(id=name):
            scope.items[name] = item
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])],
        ):
            scope.indexes[item] = name


def _add(found: dict[str, list[str]], name: str, text: str) -> None:
    if text not in found.setdefault(name, []):
        found[name].append(text)
