"""Statements in words: what a function does, under which condition, and for which items.

Reads a function from top to bottom and says each step as a clause, with the conditions and loops around it;
an if/elif/else that decides one thing also has a summary. What has no short wording is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sweet_rl.mini.backend.human.conditions import ladder
from sweet_rl.mini.backend.human.english import Speaker
from sweet_rl.mini.backend.human.nouns import Unspeakable, be, the

_MAX_SUMMARY = 320
_MAX_DEPTH = 12
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


@dataclass(frozen=True, slots=True)
class Statement:
    """One clause; `parts` are the clauses that a summary sums up."""

    text: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Path:
    """Where in the function we are: the loops around, and the conditions that hold."""

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


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a statement brings about: "the fee is" + "0.2 times the price"."""

    before: str
    value: str
    after: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.before, self.value, self.after)))


@dataclass(frozen=True, slots=True)
class _Branch:
    test: ast.expr | None
    body: Sequence[ast.stmt]


class Reader:
    """Puts the statements of one function into English."""

    def __init__(self, speaker: Speaker, function: ast.AST) -> None:
        self._speaker = speaker
        self._changing = frozenset(_changed_names(function))
        self._counting = frozenset(
            node.target.id
            for node in ast.walk(function)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        )

    def read(self, body: Sequence[ast.stmt]) -> Iterator[Statement]:
        """Everything that has a wording about these statements, summaries before their parts."""
        yield from self._block(body, _Path(), 0)

    def _block(self, body: Sequence[ast.stmt], path: _Path, depth: int) -> Iterator[Statement]:
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

    def _statement(self, statement: ast.stmt, path: _Path, depth: int) -> Iterator[Statement]:
        match statement:
            case ast.For(target=target, iter=source, body=body):
                yield from self._block(
                    body, replace(path, loops=(*path.loops, self._every(target, source))), depth + 1
                )
            case ast.While(test=test, body=body):
                yield from self._block(body, path.when(self._clause(test)), depth + 1)
            case ast.With(body=body):
                yield from self._block(body, path, depth + 1)
            case ast.Try(body=body, handlers=handlers, finalbody=final):
                yield from self._block(body, path, depth + 1)
                for handler in handlers:
                    yield from self._block(handler.body, path.when("something goes wrong"), depth + 1)
                yield from self._block(final, path, depth + 1)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if table.keys:
                entries = tuple(path.tell(entry) for entry in table_entries(name, table, self._speaker))
                for outcome in self._outcomes(statement):
                    yield Statement(path.tell(str(outcome)), entries)
                yield from map(Statement, entries)
            case _:
                if path.conditions or not self._begins(statement):
                    for outcome in self._outcomes(statement):
                        yield Statement(path.tell(str(outcome)))

    def _decide(self, branches: Sequence[_Branch], path: _Path, depth: int) -> Iterator[Statement]:
        parts: list[Statement] = []
        for index, branch in enumerate(branches):
            inside = path if self._stands_alone(branches, index) else path.when(_OTHERWISE)
            parts.extend(self._block(branch.body, inside.when(self._condition(branches, index)), depth + 1))
        summary = self._summary(branches, path)
        if summary is not None and len(parts) > 1:
            yield Statement(summary, tuple(part.text for part in parts))
        yield from parts

    def _condition(self, branches: Sequence[_Branch], index: int) -> str:
        """When this branch is taken, worded so that it stands alone where that is possible."""
        test, before = branches[index].test, branches[index - 1].test if index else None
        try:
            if test is None:
                if before is not None and (index == 1 or self._is_ladder(branches[:index])):
                    return self._speaker.clause(before, negated=True)
                return _OTHERWISE
            if before is not None and (rung := ladder(before, test, self._speaker)):
                return rung
            return self._speaker.clause(test)
        except Unspeakable:
            return _IN_SPECIAL_CASES if test is not None else _OTHERWISE

    def _stands_alone(self, branches: Sequence[_Branch], index: int) -> bool:
        """Whether a branch can be described by itself: it is the first, the last, or excludes the others."""
        test, before = branches[index].test, branches[index - 1].test
        if index == 0 or test is None or before is None:
            return True
        return ladder(before, test, self._speaker) is not None or all(
            branch.test is not None and _exclude_each_other(branch.test, test) for branch in branches[:index]
        )

    def _is_ladder(self, branches: Sequence[_Branch]) -> bool:
        tests = [branch.test for branch in branches]
        return all(
            above is not None and below is not None and ladder(above, below, self._speaker) is not None
            for above, below in pairwise(tests)
        )

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
                    yield _Outcome(_is(say(name)), say(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield _Outcome(f"{the(name)} {self._verb(name, value)}", say(value))
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                yield _Outcome(f"{say(target)} becomes", say(value))
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _CHANGES:
                yield self._change(target, op, value)
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

    def _change(self, target: ast.expr, op: ast.operator, value: ast.expr) -> _Outcome:
        subject, amount = self._speaker.say(target), self._speaker.say(value)
        if isinstance(op, ast.Add) and "text" in (self._speaker.kind(target), self._speaker.kind(value)):
            return _Outcome("", amount, f"is put at the end of {subject}")
        verb = _CHANGES[type(op)]
        if be(subject) == "are":
            verb = verb.replace("goes", "go").replace("is ", "are ")
        return _Outcome(f"{subject} {verb}", amount)

    def _begins(self, statement: ast.stmt) -> bool:
        """Whether this only sets the start of counting or collecting; it is not mentioned."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return name in self._changing and _is_nothing(value)
            case _:
                return False

    def _verb(self, name: str, value: ast.expr) -> str:
        if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value)):
            return "become" if be(the(name)) == "are" else "becomes"
        if name in self._counting and isinstance(value, ast.Constant):
            return "starts at"
        return be(the(name))

    def _clause(self, test: ast.expr) -> str:
        try:
            return self._speaker.clause(test)
        except Unspeakable:
            return _IN_SPECIAL_CASES

    def _every(self, target: ast.expr, source: ast.expr) -> str:
        try:
            return self._speaker.every(target, source)
        except Unspeakable:
            return "each item"


def table_entries(name: str, table: ast.Dict, speaker: Speaker) -> Iterator[str]:
    """A clause for each entry of a dictionary of constants."""
    for key, value in zip(table.keys, table.values, strict=True):
        if (
            isinstance(key, ast.Constant)
            and not _is_nothing(value)
            and not any(isinstance(part, ast.Name) for part in ast.walk(value))
        ):
            try:
                yield f"in {the(name)}, {speaker.say(key)} goes with {speaker.say(value)}"
            except Unspeakable:
                continue


def _decision(first: ast.If, rest: list[ast.stmt]) -> tuple[list[_Branch], list[ast.stmt]]:
    """An if/elif/else as branches; `if …: return` chains with a last return count as one decision too."""
    branches: list[_Branch] = []
    node: ast.If | None = first
    while node is not None:
        branches.append(_Branch(node.test, node.body))
        match node.orelse:
            case [ast.If() as nested]:
                node = nested
            case []:
                node, rest = _continuation(branches, rest)
            case other:
                branches.append(_Branch(None, other))
                node = None
    if (
        branches[-1].test is not None
        and _all_exit(branches)
        and len(rest) == 1
        and isinstance(rest[0], _EXITS)
    ):
        branches.append(_Branch(None, rest))
        rest = []
    return branches, rest


def _continuation(branches: Sequence[_Branch], rest: list[ast.stmt]) -> tuple[ast.If | None, list[ast.stmt]]:
    """The next `if` of a chain in which each body returns."""
    if _all_exit(branches) and rest and isinstance(rest[0], ast.If):
        return rest[0], rest[1:]
    return None, rest


def _all_exit(branches: Sequence[_Branch]) -> bool:
    return all(isinstance(branch.body[-1], _EXITS) for branch in branches)


def _exclude_each_other(one: ast.expr, other: ast.expr) -> bool:
    """Whether both compare the same thing with different constants (in one of the terms of an "and")."""

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


def _is(subject: str) -> str:
    return f"{subject} {be(subject)}"


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
                ast.AugAssign(target=ast.Name(id=name))
                | ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)))
            ):
                yield name
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _LIST_CHANGES:
                yield name


def _is_nothing(value: ast.expr) -> bool:
    """Zero, or empty."""
    match value:
        case ast.Constant(value=start):
            return not start
        case (
            ast.List(elts=[])
            | ast.Dict(keys=[])
            | ast.Call(func=ast.Name(id="set" | "dict" | "list"), args=[])
        ):
            return True
        case _:
            return False
