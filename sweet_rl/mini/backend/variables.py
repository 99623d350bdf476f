"""A function's variables: their names in plain words, and what they hold as far as their use shows. Nothing
is executed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_BOUNDARY = re.compile(r"_+|(?<=[a-z]{2})(?=[A-Z])")
_SINGULAR_S = ("ss", "us", "is", "series", "news")
_BLANKS = {"": "an empty text", " ": "a space", "\n": "a line break", "\t": "a tab"}
_SHORT_FORMS = {"num": "number of", "avg": "average", "diff": "difference", "pct": "percentage"}
_FLAGS = ("is", "are", "has", "have", "should", "can", "was")


def split_identifier(name: str) -> list[str]:
    """`tank_size`, `tankSize` -> ["tank", "size"]; common short forms are written out."""
    words = [
        word if word.isupper() else word[:1].lower() + word[1:] for word in _BOUNDARY.split(name) if word
    ]
    return [_SHORT_FORMS.get(word, word) for word in words] or [name]


def the(name: str) -> str:
    """`tank_size` -> "the tank size", `is_member` -> '"is member"'; a bare letter stays what it is."""
    words = split_identifier(name)
    if words[0] in _FLAGS and len(words) > 1:
        return quote(" ".join(words))
    return name if len(name) == 1 else f"the {' '.join(words)}"


def bare(noun: str) -> str:
    return noun.removeprefix("the ")


def singular(words: str) -> str:
    """The last word in the singular, as far as spelling shows: "travel histories" -> "travel history"."""
    if words.endswith("ies") and len(words) > 4:
        return words[:-3] + "y"
    if words.endswith(("sses", "shes", "ches", "xes")):
        return words[:-2]
    if words.endswith("s") and not words.endswith(_SINGULAR_S):
        return words[:-1]
    return words


def be(phrase: str) -> str:
    """The form of "to be" that follows a noun phrase: looks at the head noun, before any "of"."""
    head = phrase.split(" of ", maxsplit=1)[0].split()
    return "are" if head and head[0] == "the" and singular(head[-1]) != head[-1] else "is"


def with_be(phrase: str) -> str:
    return f"{phrase} {be(phrase)}"


def quote(text: str) -> str:
    """A text constant the way people quote it in a chat, on one line."""
    if text in _BLANKS:
        return _BLANKS[text]
    one_line = text.replace("\n", "\\n").replace("\t", "\\t")
    return f"'{one_line}'" if '"' in one_line else f'"{one_line}"'


def constant(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return quote(value) if isinstance(value, str) else "..." if value is Ellipsis else str(value)


def enumerate_words(items: Sequence[str], conjunction: str = "and") -> str:
    return f" {conjunction} ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


_STRONGEST_FIRST = ("dict", "text", "list", "number", "optional", "flag")
_KIND_BY_METHOD = {  # What a variable is whose method is called
    **dict.fromkeys("append extend sort remove insert".split(), "list"),
    **dict.fromkeys("items keys values get".split(), "dict"),
    **dict.fromkeys("lower upper strip split replace title isdigit".split(), "text"),
    **dict.fromkeys("startswith endswith splitlines".split(), "text"),
}
_KIND_OF_CALL = {  # What a call gives
    **dict.fromkeys("split splitlines sorted list".split(), "list"),
    **dict.fromkeys("join lower upper strip replace title capitalize zfill str".split(), "text"),
    **dict.fromkeys("len sum int round abs".split(), "number"),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables of a function: their kind, the text keys that a dictionary is asked for, the texts that one is compared
    with, the variable for one item of a list, loop counters and their list."""

    kinds: dict[str, str] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)

    def kind(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self.kinds.get(name, "")
            case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "flag"
            case ast.Constant(value=int() | float()) | ast.BinOp(op=ast.Sub() | ast.Mult() | ast.Div()):
                return "number"
            case ast.Constant(value=str()) | ast.JoinedStr():
                return "text"
            case ast.List() | ast.ListComp():
                return "list"
            case ast.Dict() | ast.DictComp():
                return "dict"
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
                return _KIND_OF_CALL.get(called, "")
            case ast.BinOp(op=ast.Add(), left=left, right=right) | ast.IfExp(body=left, orelse=right):
                return self.kind(left) or self.kind(right)
            case ast.Subscript(value=ast.Call() as whole, slice=ast.Slice()):
                return self.kind(whole)
        return ""


def scope_of(function: ast.AST) -> Scope:
    clues: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, dict[str, None]] = defaultdict(dict)
    options: dict[str, dict[str, None]] = defaultdict(dict)
    scope = Scope()
    for node in ast.walk(function):
        for name, kind in _clues(node):
            clues[name].add(kind)
        match node:
            case (
                ast.For(target=ast.Name(id=item), iter=source)
                | ast.comprehension(target=ast.Name(id=item), iter=source)
            ):
                match source:
                    case ast.Name(id=name):
                        scope.items[name] = item
                    case ast.Call(
                        func=ast.Name(id="range"),
                        args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])],
                    ):
                        scope.indexes[item] = name
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                keys[name][key] = None
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                keys[name][key] = None
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str(text))]
            ):
                options[name][text] = None
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.In()],
                comparators=[ast.List(elts=elts) | ast.Tuple(elts=elts)],
            ):
                constants = (element.value for element in elts if isinstance(element, ast.Constant))
                options[name].update(dict.fromkeys(value for value in constants if isinstance(value, str)))
    for name, found in clues.items():
        scope.kinds[name] = next(kind for kind in _STRONGEST_FIRST if kind in found)
    for texts, into in ((keys, scope.keys), (options, scope.options)):
        into.update((name, list(found)) for name, found in texts.items() if found)
    return scope


def _clues(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Variables, and what they hold if they are used like this."""
    match node:
        case ast.FunctionDef(args=arguments):
            for parameter, default in zip(arguments.args[::-1], arguments.defaults[::-1], strict=False):
                if isinstance(default, ast.Constant) and default.value is None:
                    yield parameter.arg, "optional"
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.Compare(left=ast.Name(id=name), ops=[_], comparators=[ast.Constant() as value])
        ):
            if kind := Scope().kind(value):
                yield name, kind
        case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
            yield name, "list"
        case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
            yield name, "flag"
        case ast.BoolOp(values=values):
            yield from ((value.id, "flag") for value in values if isinstance(value, ast.Name))
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
        case ast.Compare(
            left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]
        ):
            yield name, "list"  # a text or a list: the weaker of the two
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.In() | ast.NotIn()],
            comparators=[ast.List(elts=[ast.Constant(value=str()), *_])],
        ):
            yield name, "text"
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[_]
        ):
            yield name, "number"
        case ast.BinOp(left=left, right=right) if "text" not in (Scope().kind(left), Scope().kind(right)):
            yield from ((side.id, "number") for side in (left, right) if isinstance(side, ast.Name))
