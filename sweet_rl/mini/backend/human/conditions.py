"""Python conditions as clauses: `age >= 18` -> "the age is at least 18".

Expressions inside a clause are worded by the `Speaker` that is handed in; this module knows comparisons,
and/or/not, and the calls that ask something ("starts with", "is a list").
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Protocol

from sweet_rl.mini.backend.human.nouns import (
    Unspeakable,
    bare,
    be,
    constant,
    enumerate_words,
    split_identifier,
)


class Speaks(Protocol):
    """What conditions need of the speaker of expressions."""

    def say(self, node: ast.expr) -> str:
        """The expression as a noun phrase."""
        ...

    def kind(self, node: ast.expr) -> str:
        """What the expression holds, as far as known: "text", "list", "dict", "number", "flag" or ""."""
        ...


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Gt: "more than",
    ast.GtE: "at least",
    ast.Lt: "less than",
    ast.LtE: "at most",
    ast.Eq: "",
    ast.NotEq: "not",
    ast.Is: "",
    ast.IsNot: "not",
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
}
_EQUALITY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
_TYPES = {
    "str": "text",
    "list": "a list",
    "dict": "a dictionary",
    "int": "a whole number",
    "float": "a number",
}
_COLLECTIONS = (ast.List, ast.Tuple, ast.Set)


def clause(node: ast.expr, speaker: Speaks, *, negated: bool = False) -> str:
    """The condition as a clause."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return clause(operand, speaker, negated=not negated)
        case ast.BoolOp(op=op, values=values):
            return _and_or(values, speaker, both=isinstance(op, ast.And) != negated, negated=negated)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compare(left, ops, comparators, speaker, negated=negated)
        case ast.Call():
            return _asking_call(node, speaker, negated=negated)
        case ast.Constant(value=bool(value)):
            return "always" if value != negated else "never"
        case _:
            return _truth(node, speaker, negated=negated)


def ladder(previous: ast.expr, current: ast.expr, speaker: Speaks) -> str | None:
    """The clause for the next rung of a ladder of thresholds on one quantity, both ends named.

    `if x >= 90 … elif x >= 80` -> "x is at least 80 but less than 90" for the second. A rung on the other
    side, `if x >= 90 … elif x < 50`, needs no second end. None if it is no ladder.
    """
    match previous, current:
        case (
            ast.Compare(left=left, ops=[above], comparators=[ast.Constant(value=int() | float() as edge)]),
            ast.Compare(left=same, ops=[below], comparators=[ast.Constant(value=int() | float() as limit)]),
        ) if ast.dump(left) == ast.dump(same) and {type(above), type(below)} <= _MIRRORED.keys():
            if _upward(above) == _upward(below):
                return (
                    f"{clause(current, speaker)} but {_COMPARISONS[_OPPOSITE[type(above)]]} {constant(edge)}"
                )
            apart = edge >= limit if _upward(above) else edge <= limit
            return clause(current, speaker) if apart else None
        case _:
            return None


def _upward(op: ast.cmpop) -> bool:
    return isinstance(op, ast.Gt | ast.GtE)


def _and_or(values: Sequence[ast.expr], speaker: Speaks, *, both: bool, negated: bool) -> str:
    parts = [clause(value, speaker, negated=negated) for value in values]
    if any(isinstance(value, ast.BoolOp) for value in values):
        parts = [
            f"({part})" if isinstance(value, ast.BoolOp) else part
            for part, value in zip(parts, values, strict=True)
        ]
    word = " and " if both else " or "
    return word.join([parts[0], *(_without_subject(part, parts[0]) for part in parts[1:])])


def _without_subject(part: str, first: str) -> str:
    """Drop a subject that the clause before has named: "x is 3 or x is 4" -> "x is 3 or is 4"."""
    for verb in (" is ", " are "):
        subject, found, rest = part.partition(verb)
        if found and "(" not in first and first.startswith(subject + verb):
            return verb.lstrip() + rest
    return part


def _compare(
    left: ast.expr,
    ops: Sequence[ast.cmpop],
    comparators: Sequence[ast.expr],
    speaker: Speaks,
    *,
    negated: bool,
) -> str:
    if len(ops) == 2:
        middle = comparators[0]
        mirrored = _MIRRORED.get(type(ops[0]))
        if mirrored is None or negated:
            raise Unspeakable
        first = _comparison(middle, mirrored, left, speaker)
        return f"{first} and {_COMPARISONS[type(ops[1])]} {speaker.say(comparators[1])}"
    if len(ops) != 1:
        raise Unspeakable
    op, right = type(ops[0]), comparators[0]
    if isinstance(left, ast.Constant) and op in _MIRRORED:
        left, right, op = right, left, _MIRRORED[op]
    return _comparison(left, _OPPOSITE[op] if negated else op, right, speaker)


def _comparison(left: ast.expr, op: type[ast.cmpop], right: ast.expr, speaker: Speaks) -> str:
    if op in (ast.In, ast.NotIn):
        return _membership(left, right, speaker, negated=op is ast.NotIn)
    if (asked := _question_of_truth(left, op, right)) is not None:
        value, truth = asked
        return _truth(value, speaker, negated=not truth)
    match left, right:
        case ast.BinOp(op=ast.Mod(), left=number, right=divisor), ast.Constant(value=0) if op in _EQUALITY:
            subject = speaker.say(number)
            word = "" if op is ast.Eq else "not "
            return f"{subject} {be(subject)} {word}a multiple of {speaker.say(divisor)}"
    subject, word = speaker.say(left), _COMPARISONS[op]
    if op in _EQUALITY and not isinstance(right, ast.Constant):
        word = f"{word} the same as".strip()
    return " ".join(filter(None, (subject, be(subject), word, speaker.say(right))))


def _question_of_truth(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> tuple[ast.expr, bool] | None:
    """`flag == False`, `items == []` and `len(items) == 0` as the value and the truth that is asked of it."""
    match left, right:
        case _, ast.Constant(value=bool(value)) if op in _EQUALITY:
            return left, value == (op in (ast.Eq, ast.Is))
        case _, ast.List(elts=[]) | ast.Dict(keys=[]) if op in (ast.Eq, ast.NotEq):
            return left, op is ast.NotEq
        case ast.Call(func=ast.Name(id="len"), args=[counted]), ast.Constant(value=0):
            return None if op in (ast.GtE, ast.Lt) else (counted, op in (ast.Gt, ast.NotEq))
        case _:
            return None


def _membership(left: ast.expr, right: ast.expr, speaker: Speaks, *, negated: bool) -> str:
    subject, no = speaker.say(left), "not " if negated else ""
    if isinstance(right, _COLLECTIONS):
        options = enumerate_words([speaker.say(item) for item in right.elts], "or")
        return f"{subject} {be(subject)} {no}{options}"
    container = speaker.say(right)
    if isinstance(right, ast.Constant):
        return f"{subject} {be(subject)} {no}one of the characters {container}"
    if speaker.kind(right) == "text":
        return f"{container} {'does not contain' if negated else 'contains'} {subject}"
    if speaker.kind(right) == "dict":
        return f"{container} {'has no' if negated else 'has an'} entry for {subject}"
    if isinstance(left, ast.Constant):
        return f"{subject} is {no}in {container}"
    return f"{subject} {be(subject)} {no}{'among' if be(container) == 'are' else 'in'} {container}"


def _truth(node: ast.expr, speaker: Speaks, *, negated: bool) -> str:
    """A value used as a condition by itself."""
    subject = speaker.say(node)
    if isinstance(node, ast.Name):
        prefix, *rest = split_identifier(node.id)
        if prefix in ("has", "have") and rest:
            return f"there is {'no' if negated else 'a'} {' '.join(rest)}"
    if speaker.kind(node) == "optional":
        return f"{subject} {be(subject)} {'not given' if negated else 'given'}"
    if speaker.kind(node) in ("list", "dict", "text"):
        return f"{subject} {be(subject)} {'' if negated else 'not '}empty"
    return f"{subject} {be(subject)} {'false' if negated else 'true'}"


def _asking_call(node: ast.Call, speaker: Speaks, *, negated: bool) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=text, attr="startswith" | "endswith" as verb), args=[affix]):
            word = "start" if verb == "startswith" else "end"
            how = f"does not {word}" if negated else f"{word}s"
            return f"{speaker.say(text)} {how} with {_any_of(affix, speaker)}"
        case ast.Call(func=ast.Attribute(value=text, attr="isdigit" | "isnumeric"), args=[]):
            return f"{speaker.say(text)} {'is not' if negated else 'is'} made of digits only"
        case ast.Call(func=ast.Attribute(value=text, attr="isalpha"), args=[]):
            return f"{speaker.say(text)} {'is not' if negated else 'is'} made of letters only"
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id=kind)]):
            subject = speaker.say(value)
            return f"{subject} {be(subject)} {'not ' if negated else ''}{_TYPES.get(kind, kind)}"
        case ast.Call(func=ast.Name(id="any" | "all" as word), args=[ast.GeneratorExp() as generator]):
            return _quantified(generator, speaker, every=word == "all", negated=negated)
    return _truth(node, speaker, negated=negated)


def _any_of(affix: ast.expr, speaker: Speaks) -> str:
    if isinstance(affix, ast.Tuple):
        return enumerate_words([speaker.say(item) for item in affix.elts], "or")
    return speaker.say(affix)


def _quantified(node: ast.GeneratorExp, speaker: Speaks, *, every: bool, negated: bool) -> str:
    if len(node.generators) != 1 or node.generators[0].ifs:
        raise Unspeakable
    target, source = node.generators[0].target, node.generators[0].iter
    condition = clause(node.elt, speaker, negated=every and negated)
    scope = f"{speaker.say(target)} in {speaker.say(source)}"
    if every and not negated:
        return f"for every {bare(scope)}, {condition}"
    some = "no" if negated and not every else "some"
    return f"for {some} {bare(scope)}, {condition}"
