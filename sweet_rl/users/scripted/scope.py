"""What a function's variables hold, as far as their use tells: "text", "list", "dict", "number", "flag"
(true or false) or "optional" (None unless given).

Wording only ("the number of comments", "the title is empty"); nothing is executed, and a guess that fails
makes a sentence clumsy, not wrong.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

_TEXT_METHODS = frozenset(
    {
        "lower",
        "upper",
        "strip",
        "split",
        "replace",
        "startswith",
        "endswith",
        "splitlines",
        "title",
        "isdigit",
    }
)
_LIST_METHODS = frozenset({"append", "extend", "sort", "remove", "insert"})
_DICT_METHODS = frozenset({"items", "keys", "values", "get"})
_STRONGEST_FIRST = ("dict", "text", "list", "number", "optional", "flag")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known of the variables of one function.

    `keys` are the text keys that a dictionary is asked for, `options` the texts that a variable is compared
    with, `items` the variable that stands for one item of a list, `indexes` loop counters and their list.
    """

    kinds: dict[str, str]
    keys: dict[str, list[str]] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)


def scope_of(function: ast.AST) -> Scope:
    """Collect what the uses of each variable tell."""
    clues: dict[str, set[str]] = defaultdict(set)
    scope = Scope(kinds={})
    for node in ast.walk(function):
        for name, kind in _clues(node):
            clues[name].add(kind)
        _notes(node, scope)
    for name, found in clues.items():
        scope.kinds[name] = next(kind for kind in _STRONGEST_FIRST if kind in found)
    return scope


def _clues(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.FunctionDef(args=arguments):
            defaults = arguments.defaults
            for parameter, default in zip(arguments.args[::-1], defaults[::-1], strict=False):
                if isinstance(default, ast.Constant) and default.value is None:
                    yield parameter.arg, "optional"
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if kind := _kind_of_value(value):
                yield name, kind
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
            for methods, kind in ((_TEXT_METHODS, "text"), (_LIST_METHODS, "list"), (_DICT_METHODS, "dict")):
                if attr in methods:
                    yield name, kind
        case ast.Call(func=ast.Name(id="sum" | "sorted" | "zip" | "enumerate" | "any" | "all"), args=args):
            yield from ((arg.id, "list") for arg in args if isinstance(arg, ast.Name))
        case ast.Call(func=ast.Name(id="max" | "min"), args=[ast.Name(id=name)]):
            yield name, "list"
        case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
            yield name, "list"
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
            yield name, "dict" if isinstance(key, str) else "list"
        case ast.Subscript(value=ast.Name(id=name), slice=ast.UnaryOp()):
            yield name, "list"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from _clues_of_comparison(left, op, right)
        case ast.BinOp(left=left, right=right) if not _is_text(left) and not _is_text(right):
            yield from ((side.id, "number") for side in (left, right) if isinstance(side, ast.Name))
        case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
            yield name, "flag"
        case ast.BoolOp(values=values):
            yield from ((value.id, "flag") for value in values if isinstance(value, ast.Name))


def _clues_of_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[tuple[str, str]]:
    match left, op, right:
        case ast.Constant(value=str()), ast.In() | ast.NotIn(), ast.Name(id=name):
            yield name, "list"  # a text or a list: the weaker of the two
        case ast.Name(id=name), _, ast.Constant(value=bool()):
            yield name, "flag"
        case ast.Name(id=name), _, ast.Constant(value=str()):
            yield name, "text"
        case ast.Name(id=name), ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE(), _:
            yield name, "number"
        case ast.Name(id=name), ast.In() | ast.NotIn(), ast.List(elts=[ast.Constant(value=str()), *_]):
            yield name, "text"
        case ast.Name(id=name), _, ast.Constant(value=int() | float()):
            yield name, "number"


def _kind_of_value(value: ast.expr) -> str:
    match value:
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "text"
        case ast.Constant(value=bool()):
            return "flag"
        case (
            ast.Call(func=ast.Attribute(attr="split" | "splitlines"))
            | ast.Call(func=ast.Name(id="sorted" | "list"))
        ):
            return "list"
        case ast.Call(func=ast.Attribute(attr="join" | "lower" | "upper" | "strip" | "replace")):
            return "text"
        case (
            ast.Constant(value=int() | float()) | ast.Call(func=ast.Name(id="len" | "sum" | "int" | "round"))
        ):
            return "number"
        case _:
            return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _notes(node: ast.AST, scope: Scope) -> None:
    match node:
        case (
            ast.For(target=ast.Name(id=item), iter=source)
            | ast.comprehension(target=ast.Name(id=item), iter=source)
        ):
            match source:
                case ast.Name(id=listed):
                    scope.items[listed] = item
                case ast.Call(
                    func=ast.Name(id="range"),
                    args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=listed)])],
                ):
                    scope.indexes[item] = listed
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
            left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.List() | ast.Tuple() as listed]
        ):
            for element in listed.elts:
                if isinstance(element, ast.Constant) and isinstance(element.value, str):
                    _add(scope.options, name, element.value)


def _add(found: dict[str, list[str]], name: str, text: str) -> None:
    if text not in found.setdefault(name, []):
        found[name].append(text)
