"""Python expressions and conditions in plain English: `price * (1 + rate)` -> "the price times (1 plus the rate)".

Most wordings are rules of a table; code that has no short wording raises `Unspeakable`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from sweet_rl.mini.backend import variables
from sweet_rl.mini.backend.variables import Scope, bare, be, constant, enumerate_words, quote, singular, the

_MAX_NESTING = 24
_MAX_ITEMS_IN_LITERAL = 12


class Unspeakable(Exception):
    """There is no short wording for this code."""


class Level(IntEnum):
    """The precedence of a phrase; a phrase of lower precedence than its surroundings needs brackets."""

    PHRASE = 0
    SUM = 1
    PRODUCT = 2
    ATOM = 3


class Phrase(NamedTuple):
    text: str
    level: Level = Level.ATOM


class _Rule(NamedTuple):
    code: ast.expr
    words: str
    level: Level


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return type(node).__name__


def _read_rules() -> dict[str, list[_Rule]]:
    rules: dict[str, list[_Rule]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        code, arrow, rest = line.partition(" -> ")
        if arrow:
            words, _, level = rest.partition(" | ")
            parsed = ast.parse(code.strip(), mode="eval").body
            rules.setdefault(_name_of(parsed), []).append(
                _Rule(parsed, words, Level[level.upper() or "ATOM"])
            )
    return rules


_RULES = _read_rules()
_IGNORED_FIELDS = {"ctx", "kind", "keywords"}
_TYPES = {
    "str": "text", "list": "a list", "dict": "a dictionary", "int": "a whole number", "float": "a number",
}  # fmt: skip


class _No(NamedTuple):
    """The negation of a clause in its words."""

    negated: bool

    def __format__(self, forms: str) -> str:
        return forms.split("|")[self.negated] if forms else "not " * self.negated


class _Slot(NamedTuple):
    """A part of the code in the words of a rule."""

    speaker: Speaker
    node: ast.expr

    def __format__(self, how: str) -> str:
        speaker, node = self
        match how:
            case "say":
                return speaker.say(node)
            case "clause":
                return speaker.clause(node)
            case "is":
                return variables.with_be(speaker.say(node))
            case "among":
                container = speaker.say(node)
                return f"{'among' if be(container) == 'are' else 'in'} {container}"
            case "bare":
                return bare(speaker.say(node))
            case "each":
                return speaker.each(node)
            case "bare_each":
                return bare(speaker.each(node))
            case "size":
                counted = speaker.held(node)
                if be(counted) == "are":
                    return f"number of {bare(counted)}"
                many = speaker.kind(node) in ("list", "dict")
                return f"{'number of items in' if many else 'length of'} {counted}"
            case "or":
                options = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
                return enumerate_words(list(map(speaker.say, options)), "or")
            case "type":
                if not isinstance(node, ast.Name):
                    raise Unspeakable
                return _TYPES.get(node.id, node.id)
            case "things":
                return "characters" if speaker.kind(node) == "text" else "items"
        return speaker.held(node, Level[how.upper() or "ATOM"])


_ASKING = {"any", "all", "isinstance", "startswith", "endswith", "isdigit", "isnumeric", "isalpha"}
_WORDS: dict[type[ast.cmpop], str] = {
    ast.Gt: "more than", ast.GtE: "at least", ast.Lt: "less than", ast.LtE: "at most",
    ast.Eq: "", ast.NotEq: "not", ast.Is: "", ast.IsNot: "not",
}  # fmt: skip
_PAIRS: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    (ast.Gt, ast.LtE), (ast.Lt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot),
)  # fmt: skip
_OPPOSITE = dict(_PAIRS) | {one: other for other, one in _PAIRS}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE,
}  # fmt: skip


class Speaker:
    """Words the expressions of one function, given its known variables."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.kind, self._depth = scope, scope.kind, 0

    def say(self, node: ast.expr) -> str:
        return self.phrase(node).text

    def held(self, node: ast.expr, level: Level = Level.ATOM) -> str:
        """The expression, in brackets if it is looser than `level`."""
        phrase = self.phrase(node)
        return phrase.text if phrase.level >= level else f"({phrase.text})"

    def phrase(self, node: ast.expr) -> Phrase:
        """The expression in words, with how tightly they hold together."""
        self._depth += 1
        try:
            if self._depth > _MAX_NESTING:
                raise Unspeakable
            special = self._call(node) if isinstance(node, ast.Call) else self._without_rule(node)
            if special is None and (special := self._by_rule(node)) is None:
                raise Unspeakable
            return special
        finally:
            self._depth -= 1

    def _without_rule(self, node: ast.expr) -> Phrase | None:
        match node:
            case ast.Name(id=name):
                return Phrase(f"position {name}" if name in self.scope.indexes else the(name))
            case ast.Constant(value=value):
                return Phrase(constant(value))
            case ast.Attribute(value=value, attr=attr):
                in_math = isinstance(value, ast.Name) and value.id == "math"
                return Phrase(attr if in_math else f"{the(attr)} of {self.held(value)}")
            case ast.UnaryOp(op=ast.Not() | ast.UAdd() | ast.Invert()) | ast.Compare() | ast.BoolOp():
                return Phrase(f"whether {self.clause(node)}", Level.PHRASE)
            case ast.Subscript(value=ast.Name() as listed, slice=ast.Name(id=i)) if i in self.scope.indexes:
                value = self.held(listed)
                one = f"the {singular(bare(value))}" if be(value) == "are" else f"each item of {value}"
                return Phrase(one)
            case ast.JoinedStr(values=parts):
                return Phrase(quote("".join(map(self._part, parts))))
            case ast.List(elts=[_, *_] as items):
                return Phrase(f"a list with {self._items(items)}", Level.PHRASE)
            case ast.Tuple(elts=items) | ast.Set(elts=items):
                return Phrase(self._items(items), Level.PHRASE)
            case ast.Dict(keys=[_, *_] as keys, values=values):
                if len(keys) > _MAX_ITEMS_IN_LITERAL:
                    raise Unspeakable
                entries, pairs = [], [(key, value) for key, value in zip(keys, values, strict=True) if key]
                table = all(
                    isinstance(value, ast.Constant) and not isinstance(value.value, str) for value in values
                )
                for key, value in pairs:
                    of_key = f"{self.say(key)} set to {self.held(value, Level.SUM)}"
                    entries.append(f"{self.say(value)} for {self.say(key)}" if table else of_key)
                return Phrase(f"a dictionary with {enumerate_words(entries)}", Level.PHRASE)
            case ast.ListComp():
                return Phrase(f"the list of {self.each(node)}", Level.PHRASE)
            case ast.SetComp():
                return Phrase(f"the distinct values of {self.each(node)}", Level.PHRASE)
            case ast.GeneratorExp():
                return Phrase(self.each(node), Level.PHRASE)
            case ast.DictComp(key=key):
                return Phrase(f"a dictionary from {self.say(key)} to {self.each(node)}", Level.PHRASE)
            case ast.Lambda(body=body):
                return self.phrase(body)
        return None

    def _items(self, items: Sequence[ast.expr]) -> str:
        if len(items) > _MAX_ITEMS_IN_LITERAL:
            raise Unspeakable
        return enumerate_words([self.held(item, Level.SUM) for item in items])

    def _part(self, part: ast.expr) -> str:
        match part:
            case ast.Constant(value=str(text)):
                return text
            case ast.FormattedValue(value=value, format_spec=None):
                return f"[{bare(self.say(value))}]"
            case ast.FormattedValue(
                value=value, format_spec=ast.JoinedStr(values=[ast.Constant(value=str(code))])
            ):
                if code.endswith("f") and "." in code:
                    return f"[{bare(self.say(value))} with {code.rpartition('.')[2][:-1]} decimals]"
                if code[:1] == "0" and (digits := code.rstrip("d")).isdigit():
                    return f"[{bare(self.say(value))} as {digits.lstrip('0')} digits]"
        raise Unspeakable

    def each(self, made: ast.expr) -> str:
        match made:
            case (
                ast.DictComp(value=item, generators=[loop])
                | ast.ListComp(elt=item, generators=[loop])
                | ast.SetComp(elt=item, generators=[loop])
                | ast.GeneratorExp(elt=item, generators=[loop])
            ):
                which, scope = self._where(loop), self.every(loop.target, loop.iter)
                if ast.dump(item) != ast.dump(ast.Name(getattr(loop.target, "id", ""), ast.Load())):
                    return f"{self.say(item)} for {scope}{which}"
                source = self.say(loop.iter)
                return f"{scope.replace('each ', 'every ', 1) if ' in ' in scope else source}{which}"
        raise Unspeakable

    def _where(self, loop: ast.comprehension) -> str:
        return "".join(f" where {self.clause(condition)}" for condition in loop.ifs)

    def every(self, target: ast.expr, source: ast.expr) -> str:
        """What a loop runs over: `for player in players` -> "each player"."""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
            match source.func.id, source.args, target:
                case "range", [ast.Call(func=ast.Name(id="len"), args=[listed])], _:
                    return f"each position in {self.say(listed)}"
                case "range", [rounds], ast.Name(id="_"):
                    return f"each of {self.held(rounds)} rounds"
                case "zip", [_, *_] as zipped, ast.Tuple():
                    together = enumerate_words(list(map(self.say, zipped)))
                    one = enumerate_words([bare(self.say(name)) for name in names])
                    return f"each {one} at the same place in {together}"
                case "enumerate", [listed, *_], ast.Tuple(elts=[_, item]):
                    return self.every(item, listed)
        one = enumerate_words([bare(self.say(name)) for name in names])
        collection = self.say(source)
        return f"each {one}" if singular(bare(collection)).endswith(one) else f"each {one} in {collection}"

    def _call(self, node: ast.Call) -> Phrase | None:
        """Calls that no single rule describes. An unknown call is unspeakable: a guess would be worse."""
        options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        match node.func, node.args:
            case ((ast.Name(id=name) | ast.Attribute(attr=name)), _) if name in _ASKING:
                return Phrase(f"whether {self.clause(node)}", Level.PHRASE)
            case ast.Name(id="float" | "list" | "tuple" | "dict" | "bool"), [value, *_]:
                return self.phrase(value)  # a person would not mention the conversion
            case ast.Name(id="sum"), [
                ast.GeneratorExp(elt=ast.Constant(value=1), generators=[loop])
                | ast.ListComp(elt=ast.Constant(value=1), generators=[loop]), *_
            ]:  # fmt: skip
                scope = bare(self.every(loop.target, loop.iter)).removeprefix("each ")
                return Phrase(f"the count of {scope}{self._where(loop)}")
            case ast.Name(id="round"), [value, *digits] if len(digits) < 2:
                how = "a whole number"
                if digits:
                    one = isinstance(digits[0], ast.Constant) and digits[0].value == 1
                    how = "1 decimal" if one else f"{self.say(digits[0])} decimals"
                text, level = self.phrase(value)
                if level is Level.ATOM:
                    return Phrase(f"{text} rounded to {how}", Level.SUM)
                value_in_words = text if level >= Level.SUM else f"({text})"
                return Phrase(f"{value_in_words}, rounded to {how}", Level.PHRASE)
            case ast.Name(id="max" | "min" as name), [_, *_]:
                return self._extreme(name, node.args, options)
            case ast.Name(id="sorted"), [value, *_]:
                return self._sorted(value, options)
        return None

    def _extreme(self, name: str, args: Sequence[ast.expr], options: Mapping[str, ast.expr]) -> Phrase:
        most, limit = ("highest", "at least") if name == "max" else ("lowest", "at most")
        if len(args) > 1:
            edges = [arg for arg in args if isinstance(arg, ast.Constant)]
            if len(args) == 2 and len(edges) == 1 and not options:
                [other] = (arg for arg in args if not isinstance(arg, ast.Constant))
                value = self.held(other, Level.SUM)
                return Phrase(f"{value}, but {limit} {self.say(edges[0])}", Level.PHRASE)
            return Phrase(f"the {most} of {enumerate_words(list(map(self.held, args)))}")
        [source] = args
        match options.get("key"):
            case None:
                return Phrase(f"the {most} of {self.held(source)}")
            case ast.Attribute(value=owner, attr="get") if ast.dump(owner) == ast.dump(source):
                return Phrase(f"the key of {self.say(source)} with the {most} value")
            case ast.Lambda(body=body):
                one = singular(bare(self.say(source)))
                return Phrase(f"the {one} with the {most} {bare(self.say(body))}")
            case ast.Name(id="len"):
                return Phrase(f"the {'longest' if most == 'highest' else 'shortest'} of {self.say(source)}")
        raise Unspeakable

    def _sorted(self, value: ast.expr, options: Mapping[str, ast.expr]) -> Phrase:
        match options.get("key"):
            case None:
                by = ""
            case ast.Lambda(body=body):
                by = f" by {self.say(body)}"
            case ast.Name(id="len"):
                by = " by length"
            case _:
                raise Unspeakable
        match options.get("reverse"):
            case ast.Constant(value=True):
                order = "highest first"
            case None | ast.Constant(value=False):
                order = "lowest first"
            case _:
                raise Unspeakable
        if not by and order == "lowest first":
            return Phrase(f"{self.held(value)} in sorted order")
        return Phrase(f"{self.held(value)} sorted{by}, {order}", Level.SUM)

    def _by_rule(self, node: ast.expr, *, no: bool = False) -> Phrase | None:
        for rule in _RULES.get(_name_of(node), ()):
            found: dict[str, ast.expr] = {}
            if self._fits(rule.code, node, found):
                slots = {letter: _Slot(self, part) for letter, part in found.items()}
                return Phrase(rule.words.format(no=_No(no), **slots), rule.level)
        return None

    def _fits(self, code: object, node: object, found: dict[str, ast.expr]) -> bool:
        """Whether a node is of the form of a rule's code; `found` gets the parts by their letters."""
        if isinstance(code, ast.Name) and len(code.id) == 1 and isinstance(node, ast.expr):
            found[code.id] = node
            value = node.value if isinstance(node, ast.Constant) else ...
            match code.id:
                case "t" | "d":
                    return self.kind(node) == {"t": "text", "d": "dict"}[code.id]
                case "n" | "m":
                    return self.kind(node) != "text"
                case "C":
                    return isinstance(node, ast.List | ast.Tuple | ast.Set)
                case "L":
                    return isinstance(node, ast.ListComp | ast.GeneratorExp)
                case "K":
                    return isinstance(node, ast.Constant)
                case "E":
                    return not value
                case "N" | "S":
                    return isinstance(value, int | float if code.id == "N" else str)
            return True
        if isinstance(code, list) and isinstance(node, list):
            return len(code) == len(node) and all(map(self._fits, code, node, repeat(found)))
        if not isinstance(code, ast.AST):
            return code == node
        return type(code) is type(node) and all(
            self._fits(getattr(code, field), getattr(node, field), found)
            for field in code._fields
            if field not in _IGNORED_FIELDS
        )

    def clause(self, node: ast.expr, *, negated: bool = False) -> str:
        """A condition as a clause: `age >= 18` -> "the age is at least 18"."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.clause(operand, negated=not negated)
            case ast.BoolOp(op=both, values=values):
                parts = []
                for value in values:
                    part = self.clause(value, negated=negated)
                    parts.append(f"({part})" if isinstance(value, ast.BoolOp) else part)
                word = " and " if isinstance(both, ast.And) != negated else " or "
                said = parts[:1]
                for part in parts[1:]:  # a subject is named once: "x is 3 or x is 4" -> "x is 3 or is 4"
                    for verb in (" is ", " are "):
                        subject, found, rest = part.partition(verb)
                        if found and "(" not in parts[0] and parts[0].startswith(subject + verb):
                            said.append(verb.lstrip() + rest)
                            break
                    else:
                        said.append(part)
                return word.join(said)
            case ast.Compare(left=left, ops=[first, second], comparators=[middle, right]):
                mirrored = _MIRRORED.get(type(first))
                if mirrored is None or negated or type(second) not in _WORDS:
                    raise Unspeakable
                between = self._comparison(middle, mirrored, left)
                return f"{between} and {_WORDS[type(second)]} {self.say(right)}"
            case ast.Compare(left=left, ops=[only], comparators=[right]):
                op = type(only)
                if isinstance(left, ast.Constant) and op in _MIRRORED:
                    left, right, op = right, left, _MIRRORED[op]
                return self._comparison(left, _OPPOSITE[op] if negated else op, right)
            case ast.Compare():
                raise Unspeakable
            case ast.Constant(value=bool(value)):
                return "always" if value != negated else "never"
            case ast.Call(
                func=ast.Name(id="any" | "all" as word), args=[ast.GeneratorExp(elt=elt, generators=loops)]
            ):
                if len(loops) != 1 or loops[0].ifs:
                    raise Unspeakable
                some = {"any": ("some", "no"), "all": ("every", "some")}[word][negated]
                scope = f"{bare(self.say(loops[0].target))} in {self.say(loops[0].iter)}"
                return f"for {some} {scope}, {self.clause(elt, negated=negated and word == 'all')}"
        asking = isinstance(node, ast.Call) and _name_of(node) in _ASKING
        phrase = self._by_rule(node, no=negated) if asking else None
        return phrase.text if phrase else self._truth(node, negated=negated)

    def _comparison(self, left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> str:
        no = op in (ast.NotEq, ast.IsNot, ast.NotIn)
        match left, right:  # the truth of a value, in other words
            case _, ast.Constant(value=bool(value)) if op in (ast.Eq, ast.NotEq, ast.Is, ast.IsNot):
                return self._truth(left, negated=value == no)
            case _, ast.List(elts=[]) | ast.Dict(keys=[]) if op in (ast.Eq, ast.NotEq):
                return self._truth(left, negated=not no)
            case ast.Call(func=ast.Name(id="len"), args=[counted]), ast.Constant(value=0) if op not in (
                ast.GtE,
                ast.Lt,
                ast.In,
                ast.NotIn,
            ):
                return self._truth(counted, negated=op not in (ast.Gt, ast.NotEq))
        positive = ast.Eq if op in (ast.NotEq, ast.Is, ast.IsNot) else ast.In if no else op
        phrase = self._by_rule(ast.Compare(left, [positive()], [right]), no=no)
        if phrase is None:
            raise Unspeakable
        return phrase.text.strip()

    def _truth(self, node: ast.expr, *, negated: bool) -> str:
        subject = self.say(node)
        if isinstance(node, ast.Name):
            prefix, *rest = variables.split_identifier(node.id)
            if prefix in ("has", "have") and rest:
                return f"there is {'no' if negated else 'a'} {' '.join(rest)}"
        if self.kind(node) == "optional":
            return f"{subject} {be(subject)} {'not given' if negated else 'given'}"
        if self.kind(node) in ("list", "dict", "text"):
            return f"{subject} {be(subject)} {'' if negated else 'not '}empty"
        return f"{subject} {be(subject)} {'false' if negated else 'true'}"

    def ladder(self, previous: ast.expr, current: ast.expr) -> str | None:
        """The next rung of `if x >= 90 … elif x >= 80`: "x is at least 80 but less than 90"; else None."""
        match previous, current:
            case (
                ast.Compare(
                    left=left, ops=[above], comparators=[ast.Constant(value=int() | float() as edge)]
                ),
                ast.Compare(
                    left=same, ops=[below], comparators=[ast.Constant(value=int() | float() as limit)]
                ),
            ) if ast.dump(left) == ast.dump(same) and {type(above), type(below)} <= _MIRRORED.keys():
                upward = isinstance(above, ast.Gt | ast.GtE)
                if upward == isinstance(below, ast.Gt | ast.GtE):
                    opposite = _WORDS[_OPPOSITE[type(above)]]
                    return f"{self.clause(current)} but {opposite} {constant(edge)}"
                apart = edge >= limit if upward else edge <= limit
                return self.clause(current) if apart else None
        return None
