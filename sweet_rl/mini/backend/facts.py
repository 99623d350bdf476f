"""A hidden function as facts, each one sentence that a person might say: what it does, when, and for which items.

It is parsed, never run. Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from sweet_rl.mini.backend import variables
from sweet_rl.mini.backend.english import Speaker, Unspeakable
from sweet_rl.mini.backend.questions import SIGNS, Topic, numbers_in, quotes_in, stems
from sweet_rl.mini.backend.variables import be, constant, enumerate_words, quote, scope_of, the, with_be

MAX_REPLY = 400  # Characters of a reply; the published world cuts it there
_MAX_SOURCE, _MAX_NODES = 50_000, 20_000
_MAX_SUMMARY, _MAX_DEPTH = 320, 12

_OTHERWISE = "in all other cases"
_IN_SPECIAL_CASES = "a certain condition holds"
_CHANGES: dict[type[ast.operator], str] = {
    ast.Add: "goes up by",
    ast.Sub: "goes down by",
    ast.Mult: "is multiplied by",
    ast.Div: "is divided by",
}
_LIST_CHANGES = {"append": "is added to", "add": "is added to", "remove": "is removed from"}
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_CONTENTS = {"dict": " of dictionaries", "text": " of texts", "list": " of lists", "number": " of numbers"}
_KINDS = {"dict": "a dictionary", "text": "text", "list": "a list"}
_KINDS |= {"number": "a number", "flag": "True or False"}
_HEAD = re.compile(
    r"(?:^|, )(?:by default )?(the [^,\"]+?) (?:is|are|goes|go|starts|becomes?)\b(?! more| less| at )",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence: what it decides (`head`), the sentences it sums up (`parts`), the constants in it."""

    text: str
    topics: frozenset[Topic]
    words: frozenset[str]
    head: frozenset[str]
    numbers: frozenset[float]
    texts: frozenset[str]
    parts: tuple[str, ...] = ()

    @property
    def inclusive(self) -> bool | None:
        """Whether the edge of its threshold counts; None when it has none, or several of different kinds."""
        included = bool(re.search(r"\bat (least|most)\b", self.text))
        excluded = bool(re.search(r"\b(more|less) than\b", self.text))
        return None if included == excluded else included


@lru_cache(maxsize=1024)
def facts_of(source: str) -> tuple[Fact, ...]:
    """The facts of a hidden function, in the order of its source; none if it is no Python."""
    if len(source) > _MAX_SOURCE:
        return ()
    facts: dict[str, Fact] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's code
            tree = ast.parse(source)
        if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
            return ()
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        clauses = [pair for function in functions for pair in _Reader(function).read()]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    for clause, known in clauses:
        text = _sentence(clause.text)
        if len(text) <= MAX_REPLY and text not in facts:
            topics = {topic for topic, sign in SIGNS.items() if sign.search(text)}
            heads = _HEAD.findall(text)
            conditional = text.startswith(("If ", "For "))
            facts[text] = Fact(
                text,
                frozenset(topics if known is None else {*topics, known}),
                stems(text),
                stems(heads[-1 if conditional else 0]) if heads else frozenset(),
                numbers_in(text),
                quotes_in(text),
                tuple(map(_sentence, clause.parts)),
            )
    return tuple(facts.values())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


class _Clause(NamedTuple):
    text: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Path:
    loops: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def when(self, condition: str) -> _Path:
        return replace(self, conditions=(*self.conditions, condition))

    def tell(self, action: str) -> str:
        opening = [f"for {' and '.join(self.loops)}"] if self.loops else []
        conditions = [condition for condition in self.conditions if condition != _OTHERWISE]
        if conditions:
            otherwise = " and no earlier case applies" if len(conditions) < len(self.conditions) else ""
            opening.append(f"if {' and '.join(conditions)}{otherwise}")
        elif self.conditions:
            opening.append(_OTHERWISE)
        return ", ".join([*opening, action])


class _Outcome(NamedTuple):
    """What a statement brings about: "the fee is" + "0.2 times the price"."""

    before: str
    value: str
    after: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


class _Branch(NamedTuple):
    test: ast.expr | None
    body: Sequence[ast.stmt]


class _Reader:
    def __init__(self, function: ast.FunctionDef) -> None:
        self._function, self._scope = function, scope_of(function)
        self._speaker = Speaker(self._scope)
        self._changing = frozenset(_changed_names(function))
        self._counting = frozenset(
            node.target.id
            for node in ast.walk(function)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        )

    def read(self) -> Iterator[tuple[_Clause, Topic | None]]:
        """Everything that has a wording, summaries before their parts, with its topic where that is known."""
        arguments = self._function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
        ]
        for parameter, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if default is not None:
                try:
                    clause = f"by default {with_be(the(parameter.arg))} {self._speaker.say(default)}"
                except Unspeakable:
                    continue
                yield _Clause(clause), Topic.DEFAULT
        for statement in self._block(self._function.body, _Path(), 0):
            yield statement, None
        for parameter in (*positional, *arguments.kwonlyargs):
            if shape := self._shape(parameter.arg):
                yield _Clause(shape), Topic.INPUT
        if result := self._result():
            yield _Clause(result), Topic.OUTPUT

    def _shape(self, name: str) -> str:
        scope = self._scope
        kind = _KINDS.get(scope.kinds.get(name, ""), "")
        if options := scope.options.get(name):
            values = enumerate_words(list(map(constant, options)))
            return f"for {the(name)} I know the value{'s' if len(options) > 1 else ''} {values}"
        if keys := scope.keys.get(name):
            return f"{the(name)} should be a dictionary with {enumerate_words(list(map(quote, keys)))}"
        if item := scope.items.get(name):
            if keys := scope.keys.get(item):
                each, plain = (
                    enumerate_words(list(map(quote, keys))),
                    " ".join(variables.split_identifier(item)),
                )
                return f"{the(name)} should be a list, and each {plain} in it is a dictionary with {each}"
            if scope.kinds.get(name) == "list":
                return f"{the(name)} should be a list{_CONTENTS.get(scope.kinds.get(item, ''), '')}"
        return f"{the(name)} should be {kind}" if kind else ""

    def _result(self) -> str:
        kinds: dict[str, None] = {}
        for node in ast.walk(self._function):
            if isinstance(node, ast.Return) and node.value is not None:
                match node.value:
                    case ast.Constant(value=None):
                        kind = "None"
                    case ast.Tuple(elts=elts):
                        kind = f"a tuple of {len(elts)} values"
                    case ast.Dict(keys=[ast.Constant(value=str()), *_] as keys):
                        names = [self._speaker.say(key) for key in keys if isinstance(key, ast.Constant)]
                        kind = f"a dictionary with {enumerate_words(names)}"
                    case value:
                        kind = _KINDS.get(self._scope.kind(value), "")
                kinds[kind] = None
        return f"what comes back is {enumerate_words(list(kinds), 'or')}" if kinds and "" not in kinds else ""

    def _block(self, body: Sequence[ast.stmt], path: _Path, depth: int) -> Iterator[_Clause]:
        if depth > _MAX_DEPTH:
            return
        rest = list(body)
        while rest:
            statement = rest.pop(0)
            if isinstance(statement, ast.If):
                branches, rest = _decision(statement, rest)
                yield from self._decide(branches, path, depth)
            else:
                yield from self._statement(statement, path, depth)

    def _statement(self, statement: ast.stmt, path: _Path, depth: int) -> Iterator[_Clause]:
        match statement:
            case ast.For(target=target, iter=source, body=body):
                try:
                    loop = self._speaker.every(target, source)
                except Unspeakable:
                    loop = "each item"
                yield from self._block(body, replace(path, loops=(*path.loops, loop)), depth + 1)
            case ast.While(test=test, body=body):
                try:
                    clause = self._speaker.clause(test)
                except Unspeakable:
                    clause = _IN_SPECIAL_CASES
                yield from self._block(body, path.when(clause), depth + 1)
            case ast.With(body=body):
                yield from self._block(body, path, depth + 1)
            case ast.Try(body=body, handlers=handlers, finalbody=final):
                yield from self._block(body, path, depth + 1)
                for handler in handlers:
                    yield from self._block(handler.body, path.when("something goes wrong"), depth + 1)
                yield from self._block(final, path, depth + 1)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if table.keys:
                entries = tuple(map(path.tell, self._entries(name, table)))
                for outcome in self._outcomes(statement):
                    yield _Clause(path.tell(str(outcome)), entries)
                yield from map(_Clause, entries)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                not path.conditions and name in self._changing and _is_nothing(value)
            ):
                pass  # only the start of counting or collecting, which is not mentioned
            case _:
                for outcome in self._outcomes(statement):
                    yield _Clause(path.tell(str(outcome)))

    def _entries(self, name: str, table: ast.Dict) -> Iterator[str]:
        for key, value in zip(table.keys, table.values, strict=True):
            literal = not any(isinstance(part, ast.Name) for part in ast.walk(value))
            if isinstance(key, ast.Constant) and literal and not _is_nothing(value):
                try:
                    entry = f"in {the(name)}, {self._speaker.say(key)} goes with {self._speaker.say(value)}"
                except Unspeakable:
                    continue
                yield entry

    def _decide(self, branches: Sequence[_Branch], path: _Path, depth: int) -> Iterator[_Clause]:
        parts: list[_Clause] = []
        for index, branch in enumerate(branches):
            test, before = branch.test, branches[index - 1].test
            # it can be described by itself: it is the first, the last, or excludes the others
            alone = (
                index == 0 or test is None or before is None or self._speaker.ladder(before, test) is not None
            )
            if not alone and test is not None:
                alone = all(
                    one.test is not None and _exclude_each_other(one.test, test) for one in branches[:index]
                )
            inside = path if alone else path.when(_OTHERWISE)
            parts.extend(self._block(branch.body, inside.when(self._condition(branches, index)), depth + 1))
        summary = self._summary(branches, path)
        if summary is not None and len(parts) > 1:
            yield _Clause(summary, tuple(part.text for part in parts))
        yield from parts

    def _condition(self, branches: Sequence[_Branch], index: int) -> str:
        """When this branch is taken, worded so that it stands alone where that is possible."""
        test, before = branches[index].test, branches[index - 1].test if index else None
        try:
            if test is None:
                ladder = all(
                    above is not None and below is not None and self._speaker.ladder(above, below) is not None
                    for above, below in pairwise(branch.test for branch in branches[:index])
                )
                if before is not None and (index == 1 or ladder):
                    return self._speaker.clause(before, negated=True)
                return _OTHERWISE
            if before is not None and (rung := self._speaker.ladder(before, test)):
                return rung
            return self._speaker.clause(test)
        except Unspeakable:
            return _IN_SPECIAL_CASES if test is not None else _OTHERWISE

    def _summary(self, branches: Sequence[_Branch], path: _Path) -> str | None:
        """The whole decision in one clause: "the fee is 3 if …, 4 if it is …, and 5 otherwise"."""
        if len(branches) < 2 or any(len(branch.body) != 1 for branch in branches):
            return None
        outcomes = [list(self._outcomes(branch.body[0])) for branch in branches]
        if any(len(outcome) != 1 for outcome in outcomes):
            return None
        before = {outcome.before for [outcome] in outcomes}
        if len(before) != 1 or any(outcome.after for [outcome] in outcomes):
            return None
        try:
            tests = [self._speaker.clause(branch.test) if branch.test else None for branch in branches]
        except Unspeakable:
            return None
        cases = [
            f"{outcome.value} if {_with_pronoun(test, tests[0])}" if test else f"{outcome.value} otherwise"
            for [outcome], test in zip(outcomes, tests, strict=True)
        ]
        summary = path.tell(f"{before.pop()} {', '.join(cases[:-1])}, and {cases[-1]}")
        return summary if len(summary) <= _MAX_SUMMARY else None

    def _outcomes(self, statement: ast.stmt) -> Iterator[_Outcome]:
        try:
            yield from self._outcome(statement)
        except Unspeakable:
            return

    def _outcome(self, statement: ast.stmt) -> Iterator[_Outcome]:
        say = self._speaker.say
        match statement:
            case ast.Return(value=ast.Tuple(elts=[_, _, *_]) as pair):
                yield _Outcome("the result is", f"a tuple with {say(pair)}")
            case ast.Return(value=ast.expr() as value):
                yield _Outcome("the result is", say(value))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
                names
            ) == len(values):
                for name, value in zip(names, values, strict=True):
                    yield _Outcome(with_be(say(name)), say(value))
            case ast.Assign(targets=[ast.Name(id=variable)], value=value):
                verb = be(the(variable))
                if any(isinstance(node, ast.Name) and node.id == variable for node in ast.walk(value)):
                    verb = "become" if verb == "are" else "becomes"
                elif variable in self._counting and isinstance(value, ast.Constant):
                    verb = "starts at"
                yield _Outcome(f"{the(variable)} {verb}", say(value))
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                yield _Outcome(f"{say(target)} becomes", say(value))
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _CHANGES:
                subject, amount = say(target), say(value)
                if isinstance(op, ast.Add) and "text" in (self._scope.kind(target), self._scope.kind(value)):
                    yield _Outcome("", amount, f"is put at the end of {subject}")
                    return
                verb = _CHANGES[type(op)]
                if be(subject) == "are":
                    verb = verb.replace("goes", "go").replace("is ", "are ")
                yield _Outcome(f"{subject} {verb}", amount)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[item])) if (
                attr in _LIST_CHANGES
            ):
                yield _Outcome("", say(item), f"{_LIST_CHANGES[attr]} {say(owner)}")
            case ast.Raise(exc=ast.Call(func=ast.Name(id=error), args=[message])):
                yield _Outcome(f"it raises a {error} saying", say(message))
            case ast.Raise(exc=ast.Call(func=ast.Name(id=error)) | ast.Name(id=error)):
                yield _Outcome("it raises a", error)
            case ast.Continue():
                yield _Outcome("", "that one is skipped")
            case ast.Break():
                yield _Outcome("", "it stops looking any further")


def _decision(first: ast.If, rest: list[ast.stmt]) -> tuple[list[_Branch], list[ast.stmt]]:
    """An if/elif/else as branches; `if …: return` chains with a last return count as one decision too."""
    branches: list[_Branch] = []
    node: ast.If | None = first
    while node is not None:
        branches.append(_Branch(node.test, node.body))
        all_exit = all(isinstance(branch.body[-1], _EXITS) for branch in branches)
        match node.orelse, rest:
            case [ast.If() as nested], _:
                node = nested
            case [], [ast.If() as following, *later] if all_exit:
                node, rest = following, later
            case [], [last] if all_exit and isinstance(last, _EXITS):
                branches.append(_Branch(None, rest))
                return branches, []
            case [], _:
                return branches, rest
            case other, _:
                branches.append(_Branch(None, other))
                return branches, rest
    return branches, rest


def _exclude_each_other(one: ast.expr, other: ast.expr) -> bool:
    def equalities(test: ast.expr) -> dict[str, str]:
        terms = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        return {
            ast.dump(term.left): ast.dump(term.comparators[0])
            for term in terms
            if isinstance(term, ast.Compare)
            and isinstance(term.ops[0], ast.Eq)
            and isinstance(term.comparators[0], ast.Constant)
        }

    first, second = equalities(one), equalities(other)
    return any(second.get(left, right) != right for left, right in first.items())


def _with_pronoun(test: str, first: str | None) -> str:
    """Name the subject once: "the age is less than 3" after "the age is …" -> "it is less than 3"."""
    for verb, pronoun in ((" is ", "it is "), (" are ", "they are ")):
        subject, found, rest = test.partition(verb)
        if found and first is not None and test != first and first.startswith(subject + verb):
            return pronoun + rest
    return test


def _changed_names(function: ast.AST) -> Iterator[str]:
    """Variables that count or collect: assigned twice, or changed in place."""
    assigned: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                if name in assigned:
                    yield name
                assigned.add(name)
            case (
                ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)))
                | ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))])
            ):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _LIST_CHANGES:
                yield name


def _is_nothing(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=start):
            return not start
        case (
            ast.List(elts=[])
            | ast.Dict(keys=[])
            | ast.Call(func=ast.Name(id="set" | "dict" | "list"), args=[])
        ):
            return True
    return False
