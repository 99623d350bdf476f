"""Python expressions as noun phrases: `price * (1 + rate)` -> "the price times (1 plus the rate)".

Statements are in `statements`; conditions are in `conditions`, calls in `calls`. Whatever has no
short wording raises `Unspeakable`, and the fact that needed it is left out rather than worded wrongly.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sweet_rl.mini.backend.human import calls
from sweet_rl.mini.backend.human.conditions import clause
from sweet_rl.mini.backend.human.nouns import (
    Level,
    Phrase,
    Unspeakable,
    bare,
    constant,
    enumerate_words,
    is_plural,
    quote,
    singular,
    the,
)
from sweet_rl.mini.backend.human.scope import Scope

_MAX_NESTING = 24
_MAX_WORDS_IN_LITERAL = 12


_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_OPERATORS: dict[type[ast.operator], tuple[str, Level]] = {
    ast.Add: ("plus", Level.SUM),
    ast.Sub: ("minus", Level.SUM),
    ast.Mult: ("times", Level.PRODUCT),
    ast.Div: ("divided by", Level.PRODUCT),
    ast.Pow: ("to the power of", Level.ATOM),
}


class Speaker:
    """Words the expressions of one function, given its known variables."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._depth = scope, 0
        self._wordings: dict[type[ast.expr], Callable[[Any], Phrase]] = {
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.Attribute: self._attribute,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.Compare: self._condition,
            ast.BoolOp: self._condition,
            ast.IfExp: self._choice,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.List: self._list,
            ast.Tuple: self._several,
            ast.Set: self._several,
            ast.Dict: self._dictionary,
            ast.JoinedStr: self._template,
            ast.ListComp: self._made_list,
            ast.SetComp: self._made_set,
            ast.DictComp: self._made_dictionary,
            ast.GeneratorExp: self._made,
            ast.Lambda: self._lambda,
        }

    def say(self, node: ast.expr) -> str:
        """The expression as a noun phrase."""
        return self.phrase(node).text

    def phrase(self, node: ast.expr) -> Phrase:
        """The expression in words, with how tightly they hold together."""
        self._depth += 1
        try:
            if self._depth > _MAX_NESTING or type(node) not in self._wordings:
                raise Unspeakable
            return self._wordings[type(node)](node)
        finally:
            self._depth -= 1

    def held(self, node: ast.expr, level: Level = Level.ATOM) -> str:
        """The expression, in brackets if it is looser than `level`."""
        phrase = self.phrase(node)
        return phrase.text if phrase.level >= level else f"({phrase.text})"

    def clause(self, node: ast.expr, *, negated: bool = False) -> str:
        """A condition as a clause."""
        return clause(node, self, negated=negated)

    def kind(self, node: ast.expr) -> str:
        """What the expression holds, as far as known."""
        return self._scope.kind(node)

    def _name(self, node: ast.Name) -> Phrase:
        return Phrase(f"position {node.id}" if node.id in self._scope.indexes else the(node.id))

    def _constant(self, node: ast.Constant) -> Phrase:
        return Phrase(constant(node.value))

    def _attribute(self, node: ast.Attribute) -> Phrase:
        if isinstance(node.value, ast.Name) and node.value.id == "math":
            return Phrase(node.attr)
        return Phrase(f"{the(node.attr)} of {self.held(node.value)}")

    def _unary(self, node: ast.UnaryOp) -> Phrase:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return Phrase(f"-{number}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Phrase(f"minus {self.held(operand)}", Level.PRODUCT)
            case _:
                return Phrase(f"whether {self.clause(node)}", Level.PHRASE)

    def _binary(self, node: ast.BinOp) -> Phrase:
        text = "text" in (self.kind(node.left), self.kind(node.right))
        match node.op:
            case ast.Add() if text:
                return Phrase(
                    f"{self.held(node.left, Level.SUM)} followed by {self.held(node.right)}", Level.SUM
                )
            case ast.Mod() if not text:
                return Phrase(
                    f"the remainder of {self.held(node.left)} divided by {self.held(node.right)}", Level.SUM
                )
            case ast.FloorDiv():
                inner = f"{self.held(node.left)} divided by {self.held(node.right)}"
                return Phrase(f"{inner} rounded down", Level.SUM)
            case ast.Pow() if isinstance(node.right, ast.Constant) and node.right.value == 2:
                return Phrase(f"{self.held(node.left)} squared")
        if type(node.op) not in _OPERATORS:
            raise Unspeakable
        word, level = _OPERATORS[type(node.op)]
        # a - (b - c) and a / (b * c) need their brackets, a - b - c does not.
        tighter = Level.ATOM if isinstance(node.op, ast.Sub | ast.Div) else Level(min(level + 1, Level.ATOM))
        right = Level.PRODUCT if isinstance(node.op, ast.Sub) else tighter
        return Phrase(f"{self.held(node.left, level)} {word} {self.held(node.right, right)}", level)

    def _condition(self, node: ast.Compare | ast.BoolOp) -> Phrase:
        return Phrase(f"whether {self.clause(node)}", Level.PHRASE)

    def _choice(self, node: ast.IfExp) -> Phrase:
        words = f"{self.say(node.body)} if {self.clause(node.test)}, otherwise {self.say(node.orelse)}"
        return Phrase(words, Level.PHRASE)

    def _subscript(self, node: ast.Subscript) -> Phrase:
        value = self.held(node.value)
        match node.slice:
            case ast.Constant(value=str(key)):
                return Phrase(f"the {quote(key)} of {value}")
            case ast.Name(id=index) if isinstance(node.value, ast.Name) and index in self._scope.indexes:
                return Phrase(f"the {singular(bare(value))}" if is_plural(value) else f"each item of {value}")
            case ast.Slice():
                things = "characters" if self.kind(node.value) == "text" else "items"
                return Phrase(self._slice(node.slice, value, things))
            case ast.Constant(value=int(position)) if 0 <= position < len(_ORDINALS):
                return Phrase(f"the {_ORDINALS[position]} item of {value}")
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
                return Phrase(f"the last item of {value}")
            case _:
                return Phrase(f"the entry of {value} for {self.held(node.slice)}")

    def _slice(self, part: ast.Slice, value: str, things: str) -> str:
        items = f"{things} of {value}"
        match part:
            case ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub())):
                return f"{value} in reverse order"
            case ast.Slice(lower=None, upper=ast.UnaryOp(op=ast.USub(), operand=cut), step=None):
                return f"{value} without the last {self.say(cut)}"
            case ast.Slice(lower=None, upper=ast.expr() as end, step=None):
                return f"the first {self.held(end)} {items}"
            case ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=count), upper=None, step=None):
                return f"the last {self.held(count)} {items}"
            case ast.Slice(lower=ast.expr() as start, upper=None, step=None):
                return f"{value} without the first {self.held(start)}"
            case ast.Slice(lower=ast.expr() as start, upper=ast.expr() as end, step=None):
                return (
                    f"the {items} from position {self.held(start)} up to but not including {self.held(end)}"
                )
            case _:
                raise Unspeakable

    def _call(self, node: ast.Call) -> Phrase:
        return calls.say_call(node, self)

    def _list(self, node: ast.List) -> Phrase:
        if not node.elts:
            return Phrase("an empty list")
        return Phrase(f"a list with {self._items(node.elts)}", Level.PHRASE)

    def _several(self, node: ast.Tuple | ast.Set) -> Phrase:
        return Phrase(self._items(node.elts), Level.PHRASE)

    def _items(self, items: list[ast.expr]) -> str:
        if len(items) > _MAX_WORDS_IN_LITERAL:
            raise Unspeakable
        return enumerate_words([self.held(item, Level.SUM) for item in items])

    def _dictionary(self, node: ast.Dict) -> Phrase:
        if not node.keys:
            return Phrase("an empty dictionary")
        if len(node.keys) > _MAX_WORDS_IN_LITERAL:
            raise Unspeakable
        table = all(
            isinstance(value, ast.Constant) and not isinstance(value.value, str) for value in node.values
        )
        entries = [
            f"{self.say(value)} for {self.say(key)}"
            if table
            else f"{self.say(key)} set to {self.held(value, Level.SUM)}"
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        return Phrase(f"a dictionary with {enumerate_words(entries)}", Level.PHRASE)

    def _template(self, node: ast.JoinedStr) -> Phrase:
        return Phrase(quote("".join(self._part(part) for part in node.values)))

    def _part(self, part: ast.expr) -> str:
        match part:
            case ast.Constant(value=str(text)):
                return text
            case ast.FormattedValue(value=value, format_spec=written):
                return f"[{bare(self.say(value))}{self._format(written)}]"
            case _:
                raise Unspeakable

    def _format(self, written: ast.expr | None) -> str:
        match written:
            case None:
                return ""
            case ast.JoinedStr(values=[ast.Constant(value=str(code))]) if code.endswith("f") and "." in code:
                return f" with {code.rpartition('.')[2][:-1]} decimals"
            case ast.JoinedStr(values=[ast.Constant(value=str(code))]) if (
                code[:1] == "0" and code.rstrip("d").isdigit()
            ):
                return f" as {code.rstrip('d').lstrip('0')} digits"
            case _:
                raise Unspeakable

    def _made_list(self, node: ast.ListComp) -> Phrase:
        return Phrase(f"the list of {self.each(node.elt, node.generators)}", Level.PHRASE)

    def _made_set(self, node: ast.SetComp) -> Phrase:
        return Phrase(f"the distinct values of {self.each(node.elt, node.generators)}", Level.PHRASE)

    def _made(self, node: ast.GeneratorExp) -> Phrase:
        return Phrase(self.each(node.elt, node.generators), Level.PHRASE)

    def _made_dictionary(self, node: ast.DictComp) -> Phrase:
        words = f"a dictionary from {self.say(node.key)} to {self.each(node.value, node.generators)}"
        return Phrase(words, Level.PHRASE)

    def _lambda(self, node: ast.Lambda) -> Phrase:
        return self.phrase(node.body)

    def each(self, item: ast.expr, generators: list[ast.comprehension]) -> str:
        """What a comprehension makes of its items."""
        if len(generators) != 1:
            raise Unspeakable
        loop = generators[0]
        which = "".join(f" where {self.clause(condition)}" for condition in loop.ifs)
        scope = self.every(loop.target, loop.iter)
        if isinstance(loop.target, ast.Name) and ast.dump(item) == ast.dump(
            ast.Name(loop.target.id, ast.Load())
        ):
            source = self.say(loop.iter)
            return f"{source if ' in ' not in scope else scope.replace('each ', 'every ', 1)}{which}"
        return f"{self.say(item)} for {scope}{which}"

    def every(self, target: ast.expr, source: ast.expr) -> str:
        """What a loop runs over: `for player in players` -> "each player"."""
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
            match source.func.id, source.args, target:
                case "range", [ast.Call(func=ast.Name(id="len"), args=[listed])], _:
                    return f"each position in {self.say(listed)}"
                case "range", [rounds], ast.Name(id="_"):
                    return f"each of {self.held(rounds)} rounds"
                case "zip", [_, *_] as zipped, ast.Tuple(elts=names):
                    together = enumerate_words([self.say(arg) for arg in zipped])
                    return f"each {self._bare(names)} at the same place in {together}"
                case "enumerate", [listed, *_], ast.Tuple(elts=[_, item]):
                    return self.every(item, listed)
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        one = self._bare(names)
        collection = self.say(source)
        return f"each {one}" if singular(bare(collection)).endswith(one) else f"each {one} in {collection}"

    def _bare(self, names: list[ast.expr]) -> str:
        return enumerate_words([bare(self.say(name)) for name in names])
