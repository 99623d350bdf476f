"""Divides a test: what runs beside an answer, and what is made of its values outside."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sweet_rl.grading.sandbox import TestValue
from sweet_rl.grading.sandbox.guest.crossing import LIBRARIES
from sweet_rl.grading.sandbox.guest.run import VALUES
from sweet_rl.grading.sandbox.guest.values import MODULE, OBJECT

_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)

Way = Literal["calls", "reads", "loops", "smallest"]
"""What runs beside an answer: its calls; what is read of a value, too (`f(2).x`, `f(2).total()`); all calls that loops
make; or the smallest part whose value crosses."""

Ask = Callable[..., list[TestValue]]
"""Says what expressions are in the reference's namespace."""


class Part(NamedTuple):
    """One test, divided.

    Args:
        inside: evaluated beside an answer: the value, or a tuple of values for `outside`.
        outside: what the test makes of these; None where the value itself is compared.
        imports: statements that `inside` needs.
        crossing: classes whose objects may be in that tuple.
        returned: the tuple that the reference gives, as a literal.
        parts: how many values `outside` needs.
    """

    inside: str
    outside: str | None = None
    imports: str = ""
    crossing: frozenset[str] = frozenset()
    returned: str = ""
    parts: int = 1


_OBJECTS = f"""
def {OBJECT}(name, fields, kinds={{}}):
    kind = globals().get(name) or kinds.setdefault(name, type(name, (), {{"__module__": {MODULE!r}}}))
    if "_name_" in fields and hasattr(kind, "__members__"):
        return kind[fields["_name_"]]
    if "_name_" in fields:
        fields = {{"name": fields["_name_"], "value": fields["_value_"]}}
    made = object.__new__(kind)
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made
"""

_PIECES = {ast.Starred, ast.Slice, ast.FormattedValue}
"""Expressions that do not stand alone."""


class NotDivisible(Exception):
    """The expected values cannot be kept from the answer, or what is needed there is no literal."""


class Divider(ast.NodeTransformer):
    """Takes the parts out that need an answer, and leaves the places of their values in the tuple."""

    def __init__(
        self, tree: ast.Expression, under_test: frozenset[str], kinds: Mapping[str, str], ask: Ask, way: Way
    ) -> None:
        self._tree, self._under_test, self._kinds, self._ask, self._way = tree, under_test, kinds, ask, way
        self._bound = bound(tree)
        self._inside: list[ast.expr] = []
        self._imports: dict[str, None] = {}

    def divided(self, crossing: frozenset[str] = frozenset()) -> Part:
        """The test; raises `NotDivisible`."""
        if self._way == "loops":
            return looked_up(self._tree, self._under_test, self._kinds, self._ask)._replace(crossing=crossing)
        rest: Any = self.visit(self._tree.body)
        imports, parts = "\n".join(self._imports), len(self._inside)
        if ast.unparse(rest) == f"{VALUES}[0]":
            return Part(ast.unparse(self._inside[0]), imports=imports)
        if not parts:
            raise NotDivisible("it calls no function that an answer has to define")
        inside = "".join(f"{ast.unparse(piece)}, " for piece in self._inside)
        return Part(f"({inside})", ast.unparse(rest), imports, crossing, parts=parts)

    def visit(self, node: ast.AST) -> ast.AST:
        """What stands outside in the place of a part."""
        if not isinstance(node, ast.expr):
            if (
                isinstance(node, ast.comprehension)
                and self._way == "smallest"
                and self._needs_answer(node.iter)
            ):
                node.iter = _parsed(f"[*{ast.unparse(node.iter)}]")
            return super().generic_visit(node)
        if not self._needs_answer(node):
            return node
        if isinstance(node, ast.Name):
            raise NotDivisible(f"it needs {node.id!r}, to which an answer could give any meaning")
        if self._way == "smallest":
            before = len(self._inside)
            try:
                return super().generic_visit(
                    _parsed(ast.unparse(node)) if type(node) not in _PIECES else node
                )
            except NotDivisible:
                del self._inside[before:]
                if not self._can_be_taken(node):
                    raise
        elif not self._is_use(node):
            return super().generic_visit(node)
        if outer := (names_in(node) & self._bound) - bound(node):
            raise NotDivisible(f"it calls again for each {min(outer)!r}, and compares")
        self._inside.append(self._supplied(node))
        return _parsed(f"{VALUES}[{len(self._inside) - 1}]")

    def _can_be_taken(self, node: ast.expr) -> bool:
        """Whether a value crosses, and nothing that is done to it beside the answer could say what is expected."""
        if type(node) in _PIECES:
            return False
        is_object = any(self._kinds[name] == "class" for name in names_in(node) & self._under_test)
        for inner in ast.walk(node):
            match inner:
                case ast.Compare() | ast.BoolOp() | ast.IfExp():
                    return False
                case ast.BinOp() | ast.UnaryOp() if names_in(inner) & self._bound:
                    return False
                case ast.BinOp() | ast.UnaryOp() if self._needs_answer(inner) and not is_object:
                    return False
                case ast.comprehension() if not isinstance(inner.target, ast.Name):
                    return False  # what belongs to each case may be among it
                case ast.Call() if not self._is_use(inner):
                    first = root(inner)
                    name = first.id if isinstance(first, ast.Name) else ""
                    is_own = name in self._bound or hasattr(builtins, name)
                    is_function = isinstance(
                        inner.func, ast.Name | ast.Lambda
                    ) or "import" in self._kinds.get(name, "")
                    most = 99 if is_object and is_own else int(is_function)  # `f(2).same(4)` says too much
                    if len(inner.args) + len(inner.keywords) > most + ast.unparse(inner.func).endswith(
                        "islice"
                    ):
                        return False
        (value,) = self._ask([ast.unparse(node)], packed={0: {LIBRARIES}})
        try:
            calls = [one for one in ast.walk(_parsed(value.text)) if isinstance(one, ast.Call)]
        except _UNREADABLE:
            return False
        return not any(one.keywords for one in calls)

    def _supplied(self, node: Any) -> Any:
        """A part as it stands inside: what only the reference has is a literal there."""
        name = root(node)
        if isinstance(name, ast.Name) and name.id not in self._bound | self._under_test:
            kind = self._kinds.get(name.id, "library")
            if name is node and "import" in kind:
                self._imports[kind] = None
            if isinstance(node, ast.Attribute) and (submodule := self._kinds.get(ast.unparse(node))):
                self._imports[submodule] = None  # concurrent.futures is not there for importing concurrent
            if kind in {"class", "function", "data"}:
                if self._needs_answer(node):
                    raise NotDivisible("it hands what an answer returns to a helper in an argument")
                return self._described(ast.unparse(node), names_in(node))
        for field, old in ast.iter_fields(node):
            if isinstance(old, list):
                old[:] = [self._supplied(one) if isinstance(one, ast.AST) else one for one in old]
            elif isinstance(old, ast.AST):
                setattr(node, field, self._supplied(old))
        return node

    def _described(self, text: str, names: frozenset[str]) -> ast.expr:
        """What only the reference has, beside an answer: a literal, in which objects are made of their fields.

        An answer that has their class gets objects of its own where the test makes them itself: `f(Node(1))`.
        """
        classes = {name for name, kind in self._kinds.items() if kind == "class"}
        (value,) = self._ask([text], packed={0: classes})
        why = "an argument is no literal, and only the reference has it"
        try:
            described = _parsed(value.text)
            if OBJECT not in names_in(described):
                ast.literal_eval(described)
        except _UNREADABLE:
            raise NotDivisible(why) from None
        if names_in(described) == {OBJECT}:
            calls = [one for one in ast.walk(described) if isinstance(one, ast.Call)]
            kinds = sorted({ast.literal_eval(one.args[0]) for one in calls})
            methods = "any(callable(one) and name[0] != '_' for name, one in vars({}).items())"
            if any(one.text != "False" for one in self._ask([methods.format(kind) for kind in kinds])):
                raise NotDivisible("an argument has methods that only the reference has")
            self._imports[_OBJECTS] = None
            if names & self._kinds.keys() <= classes:
                has = " and ".join(f"{kind!r} in globals()" for kind in kinds)
                return _parsed(f"({text} if {has} else {value.text})")
        elif names_in(described):
            raise NotDivisible(why)
        return described

    def _needs_answer(self, node: ast.AST) -> bool:
        return not names_in(node).isdisjoint(self._under_test - self._bound)

    def _is_use(self, node: ast.AST) -> bool:
        """A call of the answer's, or what is done with an object of one of its classes."""
        name = root(node)
        if not isinstance(name, ast.Name) or name is node or name.id not in self._under_test - self._bound:
            return False
        if self._kinds[name.id] == "class":
            return True
        if isinstance(node, ast.Attribute):
            return self._way == "reads" and self._is_use(node.value)
        if not isinstance(node, ast.Call) or isinstance(node.func, ast.Name):
            return isinstance(node, ast.Call)
        if node.args or node.keywords:  # `f(1)(2)`, not `f(1).equals(2)`
            return isinstance(node.func, ast.Call) and self._is_use(node.func)
        return self._is_use(node.func)  # `f(2).total()`


LOOKED_UP = """
from copy import deepcopy as _copied_
def _looked_up_(values, keys, names):
    found = dict(zip(keys, values))
    def of(name):
        def function(*args, **named):
            return _copied_(found[repr((name, args, named))])
        function.__name__ = name
        return function
    return map(of, names)
"""
"""What stands outside for the functions under test, where a test calls them again and again."""

_HANDED_ON = {"map", "filter", "sorted", "min", "max"}
_MOST_CALLS = 1000
_OF_ANSWER = "through what an answer returns"


def looked_up(tree: ast.Expression, under_test: frozenset[str], kinds: Mapping[str, str], ask: Ask) -> Part:
    """A test with loops: `all(f(n) == m for n, m in pairs)`. Inside is a call for each `n`; outside, `f` has the values.

    Which calls these are never depends on what they return: that would tell an answer what is expected.
    """
    names = sorted(under_test & names_in(tree))
    if any(kinds[name] != "function" for name in names) or bound(tree) & under_test:
        raise NotDivisible("its loops make objects of a class that an answer has to define")
    asked: list[str] = []

    def needs(node: ast.AST) -> bool:
        return not names_in(node).isdisjoint(names)

    def add(call: str, loops: Sequence[str]) -> None:
        if _OF_ANSWER in loops:
            raise NotDivisible("it goes through what an answer returns, and calls again for each of it")
        asked.append(f"[(repr(_c_), *_c_) {' '.join(loops)} for _c_ in [{call}]]")

    def walk(node: ast.AST, loops: tuple[str, ...]) -> None:
        if not needs(node):
            return
        if isinstance(node, ast.Name | ast.Lambda | ast.NamedExpr):
            raise NotDivisible("which calls it makes may depend on what they return")
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for one in node.generators:
                walk(one.iter, loops)
                if needs(one.iter):
                    loops += (_OF_ANSWER,)
                plain = "".join(f" if {ast.unparse(test)}" for test in one.ifs if not needs(test))
                loops += (f"for {ast.unparse(one.target)} in {ast.unparse(one.iter)}{plain}",)
                parts += one.ifs
            for part in parts:
                walk(part, loops)
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [*node.args, *(one.value for one in node.keywords)]
            functions = [one.id for one in given if isinstance(one, ast.Name) and one.id in names]
            if node.func.id in names and not any(map(needs, given)):
                args = "".join(f"{ast.unparse(one)}, " for one in node.args)
                named = ", ".join(
                    f"{one.arg!r}: {ast.unparse(one.value)}" if one.arg else f"**{ast.unparse(one.value)}"
                    for one in node.keywords
                )
                return add(f"({node.func.id!r}, ({args}), {{{named}}})", loops)
            if node.func.id in _HANDED_ON and functions and sum(map(needs, given)) == 1:
                others = ", ".join(ast.unparse(one) for one in node.args if not needs(one))
                if node.func.id in {"min", "max"} and len(node.args) > 1:
                    others = f"[{others}]"
                return add(f"({functions[0]!r}, _a_, {{}})", (*loops, f"for _a_ in zip({others})"))
        for inner in ast.iter_child_nodes(node):
            walk(inner, loops)

    walk(tree.body, ())
    if not asked:
        raise NotDivisible("it calls no function that an answer has to define")
    calls: dict[str, str] = {}
    for value in ask(asked, packed=dict.fromkeys(range(len(asked)), ())):
        try:
            ast.literal_eval(value.text)
        except _UNREADABLE:
            raise NotDivisible("an argument is no literal, and only the reference has it") from None
        entries: Any = _parsed(value.text)
        for key, name, args, named in (entry.elts for entry in entries.elts):
            keywords = [
                ast.keyword(key.value, one) for key, one in zip(named.keys, named.values, strict=True)
            ]
            calls[key.value] = ast.unparse(ast.Call(ast.Name(name.value), args.elts, keywords))
    if not 0 < len(calls) <= _MOST_CALLS:
        raise NotDivisible(f"it calls {len(calls)} times")
    inside = "".join(f"{call}, " for call in calls.values())
    function = f"(lambda {', '.join(names)}: {ast.unparse(tree)})"
    outside = f"{function}(*_looked_up_({VALUES}, {[*calls]}, {names}))"
    return Part(f"({inside})", outside, parts=len(calls))


def read(expression: str) -> ast.Expression | None:
    """The expression's tree; None where it is none, which evaluating it says better."""
    try:
        return ast.parse(expression.strip(" \t"), mode="eval")
    except _UNREADABLE:
        return None


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def bound(tree: ast.AST) -> frozenset[str]:
    """Names that an expression itself gives a value: loop variables, parameters, `:=`."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)})


def names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def root(node: ast.AST) -> ast.AST:
    """What a chain of calls, attributes and subscripts begins with."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node
