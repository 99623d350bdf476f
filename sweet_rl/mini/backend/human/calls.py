"""Calls in words: builtins and the methods of text, lists and dictionaries.

A call that is not here is unspeakable: a wrong guess about an unknown helper would be worse than silence.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sweet_rl.mini.backend.human.nouns import (
    Level,
    Phrase,
    Unspeakable,
    bare,
    enumerate_words,
    is_plural,
    singular,
)

if TYPE_CHECKING:
    from sweet_rl.mini.backend.human.english import Speaker

_ASKING = frozenset({"any", "all", "isinstance", "startswith", "endswith", "isdigit", "isnumeric", "isalpha"})
Options = Mapping[str, ast.expr]
Arguments = Sequence[ast.expr]


def say_call(node: ast.Call, speaker: Speaker) -> Phrase:
    """The call as a noun phrase."""
    options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _ASKING:
            return Phrase(f"whether {speaker.clause(node)}", Level.PHRASE)
        case ast.Name(id=name) if name in _BUILTINS and node.args:
            return _BUILTINS[name](speaker, node.args, options)
        case ast.Attribute(value=owner, attr="replace") if _removes(node.args):
            return Phrase(
                f"{speaker.held(owner)} without any {_kind_of_sign(node.args[0], speaker)}", Level.SUM
            )
        case ast.Attribute(value=owner, attr=attr) if (attr, len(node.args)) in _METHODS:
            template = _METHODS[attr, len(node.args)]
            words = template.format(speaker.held(owner), *(speaker.held(arg) for arg in node.args))
            return Phrase(words, Level.ATOM if template.startswith(("the ", "how ")) else Level.SUM)
        case _:
            raise Unspeakable


def _removes(args: Arguments) -> bool:
    return len(args) == 2 and isinstance(args[1], ast.Constant) and not args[1].value


def _kind_of_sign(sign: ast.expr, speaker: Speaker) -> str:
    return "spaces" if isinstance(sign, ast.Constant) and sign.value == " " else speaker.say(sign)


_METHODS: dict[tuple[str, int], str] = {
    ("lower", 0): "{0} in lower case",
    ("upper", 0): "{0} in capitals",
    ("title", 0): "{0} with each word capitalised",
    ("capitalize", 0): "{0} with a capital first letter",
    ("strip", 0): "{0} without spaces around it",
    ("strip", 1): "{0} without {1} at either end",
    ("lstrip", 0): "{0} without spaces in front",
    ("rstrip", 0): "{0} without trailing spaces",
    ("split", 0): "the words of {0}",
    ("split", 1): "the parts of {0} split at {1}",
    ("splitlines", 0): "the lines of {0}",
    ("join", 1): "{1} joined with {0}",
    ("replace", 2): "{0} with {1} replaced by {2}",
    ("zfill", 1): "{0} padded with zeros to {1} digits",
    ("count", 1): "how often {1} occurs in {0}",
    ("index", 1): "the position of {1} in {0}",
    ("find", 1): "the position of {1} in {0}",
    ("items", 0): "{0}",
    ("keys", 0): "the keys of {0}",
    ("values", 0): "the values of {0}",
    ("get", 1): "the entry of {0} for {1}",
    ("get", 2): "the entry of {0} for {1} (or {2} if there is none)",
    ("copy", 0): "a copy of {0}",
}


def _length(speaker: Speaker, args: Arguments, _: Options) -> Phrase:
    match args[0]:
        case ast.ListComp(elt=item, generators=generators):
            return Phrase(f"the number of {bare(speaker.each(item, generators))}")
        case ast.Call(func=ast.Name(id="set"), args=[inner]):
            return Phrase(f"the number of different {bare(speaker.say(inner))}")
    counted = speaker.held(args[0])
    if is_plural(counted) or speaker.kind(args[0]) in ("list", "dict"):
        of = bare(counted) if is_plural(counted) else f"items in {counted}"
        return Phrase(f"the number of {of}")
    return Phrase(f"the length of {counted}")


def _total(speaker: Speaker, args: Arguments, _: Options) -> Phrase:
    match args[0]:
        case (
            ast.GeneratorExp(elt=ast.Constant(value=1), generators=[loop])
            | ast.ListComp(elt=ast.Constant(value=1), generators=[loop])
        ):
            which = "".join(f" where {speaker.clause(condition)}" for condition in loop.ifs)
            return Phrase(
                f"the count of {bare(speaker.every(loop.target, loop.iter)).removeprefix('each ')}{which}"
            )
        case ast.GeneratorExp() | ast.ListComp() as made:
            return Phrase(f"the total of {speaker.each(made.elt, made.generators)}")
    return Phrase(f"the total of {speaker.held(args[0])}")


def _rounded(speaker: Speaker, args: Arguments, _: Options) -> Phrase:
    match args[1:]:
        case []:
            how = "rounded to a whole number"
        case [ast.Constant(value=1)]:
            how = "rounded to 1 decimal"
        case [digits]:
            how = f"rounded to {speaker.say(digits)} decimals"
        case _:
            raise Unspeakable
    value = speaker.phrase(args[0])
    if value.level is Level.ATOM:
        return Phrase(f"{value.text} {how}", Level.SUM)
    return Phrase(f"{speaker.held(args[0], Level.SUM)}, {how}", Level.PHRASE)


def _extreme(most: str, limit: str) -> Callable[[Speaker, Arguments, Options], Phrase]:
    """Wording for `max` and `min`: of a collection, of several values, or as a limit."""

    def say(speaker: Speaker, args: Arguments, options: Options) -> Phrase:
        if len(args) == 1:
            return Phrase(_best_of(speaker, args[0], options, most))
        if len(args) == 2 and not options:
            edges = [arg for arg in args if isinstance(arg, ast.Constant)]
            others = [arg for arg in args if not isinstance(arg, ast.Constant)]
            if len(edges) == 1:
                return Phrase(
                    f"{speaker.held(others[0], Level.SUM)}, but {limit} {speaker.say(edges[0])}", Level.PHRASE
                )
        return Phrase(f"the {most} of {enumerate_words([speaker.held(arg) for arg in args])}")

    return say


def _best_of(speaker: Speaker, source: ast.expr, options: Options, most: str) -> str:
    match options.get("key"):
        case None:
            return f"the {most} of {speaker.held(source)}"
        case ast.Attribute(value=owner, attr="get") if ast.dump(owner) == ast.dump(source):
            return f"the key of {speaker.say(source)} with the {most} value"
        case ast.Lambda(body=body):
            one = singular(bare(speaker.say(source)))
            return f"the {one} with the {most} {bare(speaker.say(body))}"
        case ast.Name(id="len"):
            return f"the {'longest' if most == 'highest' else 'shortest'} of {speaker.say(source)}"
        case _:
            raise Unspeakable


def _sorted(speaker: Speaker, args: Arguments, options: Options) -> Phrase:
    what, by = speaker.held(args[0]), ""
    match options.get("key"):
        case None:
            pass
        case ast.Lambda(body=body):
            by = f" by {speaker.say(body)}"
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
        return Phrase(f"{what} in sorted order")
    return Phrase(f"{what} sorted{by}, {order}", Level.SUM)


def _wrapped(template: str, level: Level = Level.SUM) -> Callable[[Speaker, Arguments, Options], Phrase]:
    """Wording for a builtin of one argument."""

    def say(speaker: Speaker, args: Arguments, _: Options) -> Phrase:
        if len(args) != 1:
            raise Unspeakable
        return Phrase(template.format(speaker.held(args[0])), level)

    return say


def _itself(speaker: Speaker, args: Arguments, _: Options) -> Phrase:
    """Conversions that a person would not mention."""
    return speaker.phrase(args[0])


_BUILTINS: dict[str, Callable[[Speaker, Arguments, Options], Phrase]] = {
    "len": _length,
    "sum": _total,
    "round": _rounded,
    "max": _extreme("highest", "at least"),
    "min": _extreme("lowest", "at most"),
    "sorted": _sorted,
    "abs": _wrapped("the absolute value of {0}", Level.ATOM),
    "int": _wrapped("{0} as a whole number (decimals dropped)"),
    "str": _wrapped("{0} as text"),
    "set": _wrapped("the distinct values of {0}", Level.ATOM),
    "reversed": _wrapped("{0} in reverse order"),
    "float": _itself,
    "list": _itself,
    "tuple": _itself,
    "dict": _itself,
    "bool": _itself,
}
