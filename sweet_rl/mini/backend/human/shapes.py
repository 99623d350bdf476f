"""Inputs and outputs of a function: defaults, the shape of each parameter, the type of the result."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sweet_rl.mini.backend.human.english import Speaker
from sweet_rl.mini.backend.human.nouns import (
    Unspeakable,
    be,
    constant,
    enumerate_words,
    plain,
    quote,
    the,
)
from sweet_rl.mini.backend.human.scope import Scope

_CONTENTS = {"dict": " of dictionaries", "text": " of texts", "list": " of lists", "number": " of numbers"}
_KINDS = {
    "dict": "a dictionary",
    "text": "text",
    "list": "a list",
    "number": "a number",
    "flag": "True or False",
}


def defaults(function: ast.FunctionDef, speaker: Speaker) -> Iterator[str]:
    """A clause for each parameter that may be left out."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(
        zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    pairs += [
        (arg, value)
        for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    ]
    for parameter, value in pairs:
        try:
            yield f"by default {_is(the(parameter.arg))} {speaker.say(value)}"
        except Unspeakable:
            continue


def inputs(function: ast.FunctionDef, scope: Scope) -> Iterator[str]:
    """A clause for each parameter with a known property."""
    arguments = function.args
    for parameter in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        name = parameter.arg
        if clause := _shape(name, scope):
            yield clause


def _shape(name: str, scope: Scope) -> str:
    kind = _KINDS.get(scope.kinds.get(name, ""), "")
    if options := scope.options.get(name):
        values = enumerate_words([constant(option) for option in options])
        return f"for {the(name)} I know the value{'s' if len(options) > 1 else ''} {values}"
    if keys := scope.keys.get(name):
        return f"{the(name)} should be a dictionary with {enumerate_words([quote(key) for key in keys])}"
    if item := scope.items.get(name):
        if keys := scope.keys.get(item):
            each = enumerate_words([quote(key) for key in keys])
            return f"{the(name)} should be a list, and each {plain(item)} in it is a dictionary with {each}"
        if scope.kinds.get(name) == "list":
            return f"{the(name)} should be a list{_CONTENTS.get(scope.kinds.get(item, ''), '')}"
    return f"{the(name)} should be {kind}" if kind else ""


def result(function: ast.FunctionDef, speaker: Speaker) -> str:
    """A clause about the type of the result, or "" when it is not known."""
    kinds = []
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            kind = _result_kind(node.value, speaker)
            if not kind:
                return ""
            kinds.append(kind)
    distinct = list(dict.fromkeys(kinds))
    return f"what comes back is {enumerate_words(distinct, 'or')}" if distinct else ""


def _result_kind(value: ast.expr, speaker: Speaker) -> str:
    match value:
        case ast.Constant(value=None):
            kind = "None"
        case ast.Tuple(elts=elts):
            kind = f"a tuple of {len(elts)} values"
        case ast.Dict(keys=[ast.Constant(value=str()), *_] as keys):
            names = [speaker.say(key) for key in keys if isinstance(key, ast.Constant)]
            kind = f"a dictionary with {enumerate_words(names)}"
        case _:
            kind = _KINDS.get(speaker.kind(value), "")
    return kind


def _is(subject: str) -> str:
    return f"{subject} {be(subject)}"
