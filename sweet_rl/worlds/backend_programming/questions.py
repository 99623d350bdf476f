"""Clarifying questions that fit almost any Python function, and the function that a description asks for.

For `QuestionerPolicy`; knows nothing of hidden information and of the answer.
"""

from __future__ import annotations

import ast
import keyword
import random
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ABOUT_FUNCTION: Final[tuple[tuple[str, ...], ...]] = (
    (
        "Are there any thresholds or limits where the result changes, and what are they exactly?",
        "At which values does the behaviour switch from one case to another?",
    ),
    (
        "Which constants, rates or weights should the calculation use?",
        "What exact numbers go into the calculation?",
    ),
    (
        "What exactly should the function return, and in what format?",
        "What type should the result have, and what does it contain?",
    ),
    (
        "Should the result be rounded, and if so to how many decimals?",
        "Do you want rounding, and at which point of the calculation?",
    ),
    (
        "What should happen for empty, missing or invalid input?",
        "How should the function treat edge cases such as zero, negative or empty values?",
    ),
    (
        "Do any of the parameters have default values or are they optional?",
        "What defaults should be used when something is not given?",
    ),
    (
        "In which order should the steps or rules be applied?",
        "What is the formula or the sequence of steps that leads to the result?",
    ),
    (
        "Is there a maximum or a minimum that the result must stay within?",
        "Should the result be capped at some value?",
    ),
    (
        "Are there any special cases or exceptions to the general rule?",
        "Is there a case that must be handled differently from all others?",
    ),
    (
        "If a value lies exactly on a limit, which side does it belong to?",
        "Are the limits inclusive or exclusive?",
    ),
)
"""Several wordings of each general question."""

ABOUT_PARAMETER: Final[tuple[str, ...]] = (
    "What kind of value is `{name}`, and how does it affect the result?",
    "How exactly should `{name}` be used in the calculation?",
    "Which values can `{name}` take, and what happens for each of them?",
)
"""Asked about one parameter of the function."""

MAX_QUESTIONS: Final = len(ABOUT_FUNCTION)
"""As many different questions as there are for a function without parameters."""

_DEFINITION = re.compile(r"\bdef\s+(?P<name>[^\W\d]\w*)\s*\(")
_IDENTIFIER = re.compile(r"\s*+\**+\s*+(?P<name>[^\W\d]\w*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """The function that is wanted: its header as Python source, and the names of its parameters."""

    header: str
    parameters: tuple[str, ...]


@lru_cache(maxsize=4096)  # asked again in every turn of an episode
def read_signature(description: str) -> Signature | None:
    """The last `def …` of a description, or None when there is none.

    Some published descriptions break off inside the signature (at the first colon of a default value); of
    those the function's name and the parameters that can still be read are kept.
    """
    definitions = list(_DEFINITION.finditer(description))
    if not definitions:
        return None
    found = definitions[-1]
    for bracket in re.finditer(r"\)", description[found.end() :]):
        header = description[found.start() : found.end() + bracket.end()]
        try:
            function = ast.parse(f"{header}: pass").body[0]
        except (SyntaxError, ValueError):
            continue
        if isinstance(function, ast.FunctionDef):
            arguments = function.args
            names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return Signature(header, tuple(argument.arg for argument in names))
    rest = description[found.end() :].split(",")
    named = (match["name"] for part in rest if (match := _IDENTIFIER.match(part)))
    parameters = tuple(dict.fromkeys(name for name in named if not keyword.iskeyword(name)))
    function_name = "solution" if keyword.iskeyword(found["name"]) else found["name"]
    return Signature(f"def {function_name}({', '.join(parameters)})", parameters)


def stub(description: str) -> str:
    """A function of the wanted signature that returns None; of any signature when none is given."""
    signature = read_signature(description)
    header = signature.header if signature else "def solution(*args, **kwargs)"
    return f"{header}:\n    return None\n"


@lru_cache(maxsize=4096)
def plan_questions(description: str, seed: int) -> tuple[str, ...]:
    """At least `MAX_QUESTIONS` different questions, every second one on a parameter while there are any.

    Order and wording are the seed's: the same description and seed give the same list.
    """
    rng = random.Random(seed)
    general = [rng.choice(wordings) for wordings in rng.sample(ABOUT_FUNCTION, len(ABOUT_FUNCTION))]
    signature = read_signature(description)
    parameters = list(signature.parameters) if signature else []
    rng.shuffle(parameters)
    questions = []
    for question in general:
        questions.append(question)
        if parameters:
            questions.append(rng.choice(ABOUT_PARAMETER).format(name=parameters.pop()))
    return tuple(questions)
