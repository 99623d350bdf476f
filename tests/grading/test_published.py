"""Published grading: how the original executes an answer, beyond what its recorded outputs show."""

import textwrap

import pytest

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task, Trajectory

pytestmark = pytest.mark.xdist_group("published_grading")  # one sandbox for all of them

DOUBLE = "def f(x):\n    return x * 2\n"
FOUR_TESTS = {f"test{n}": f"f({n})" for n in range(1, 5)}

SCORES = {
    "a dataclass": (
        """
        from dataclasses import dataclass
        @dataclass
        class Pair:
            a: int
            b: int = 2
        def f(x, pair=Pair):
            return pair(x).a * pair(x).b
        """,
        1.0,
    ),
    "a dataclass with annotations as text": (
        """
        from __future__ import annotations
        def f(x):
            from dataclasses import dataclass
            @dataclass(frozen=True, order=True)
            class Pair:
                a: int
            return Pair(x).a + x
        """,
        1.0,
    ),
    "a NamedTuple and an Enum": (
        """
        def f(x):
            from enum import Enum, IntEnum
            from typing import NamedTuple
            class Pair(NamedTuple):
                a: int
            class Factor(IntEnum):
                TWO = 2
            return Pair(x).a * Factor.TWO + 0 * Enum('E', 'a b').a.value
        """,
        1.0,
    ),
    "type hints looked up": (
        """
        def f(x: int) -> "int":
            import typing
            class Thing:
                size: "int"
            return x * len({typing.get_type_hints(Thing)['size'], str})
        """,
        1.0,
    ),
    "an abstract class, inspected": (
        """
        def f(x):
            import abc, inspect
            class Base(abc.ABC):
                @abc.abstractmethod
                def size(self): ...
            class Thing(Base):
                def size(self):
                    return x
            return 2 * Thing().size() if inspect.isabstract(Base) else None
        """,
        1.0,
    ),
    "annotations are evaluated: List is not imported": ("def f(x: List[int]):\n    return x * 2\n", 0.0),
    "annotations are evaluated: List is imported": (
        "from typing import List\ndef f(x: List[int]) -> List[int]:\n    return x * 2\n",
        1.0,
    ),
    "a try-out block": ("def f(x):\n    return 2 * x\nif __name__ == '__main__':\n    f = None\n", 1.0),
    "the module it runs in can be found": (
        """
        def f(x):
            import importlib
            module = importlib.import_module(__name__)
            return 2 * x if vars(module) is globals() and __file__.endswith('.py') and __package__ else 0
        """,
        1.0,
    ),
    "the builtins are a dict, as in every imported module": (
        "def f(x):\n    return __builtins__['sum']([x, x])\n",
        1.0,
    ),
    "names of the evaluation's own module": (
        "def f(x):\n    signal.alarm(0)\n    return x * len([multiprocessing.cpu_count, signal.SIGALRM])\n",
        1.0,
    ),
    "a class of its own cannot be pickled": (
        """
        class Thing:
            pass
        def f(x, thing=Thing):
            import pickle
            pickle.dumps(thing())
            return x * 2
        """,
        0.0,
    ),
    "a global that an answer sets stays for its next tests": (
        "def f(x):\n    global seen\n    seen = globals().get('seen', 0) + 1\n    return 2 * x if seen < 3 else 0\n",
        0.5,
    ),
    "what is called exit": ("def f(x):\n    return 2 * x if exit and help and quit else 0\n", 1.0),
    "raises SystemExit": ("def f(x):\n    raise SystemExit\n", None),
    "a comparison that raises": (
        """
        def f(x):
            class Odd:
                def __eq__(self, other):
                    raise KeyError
            return Odd()
        """,
        None,
    ),
    "a comparison that has no truth": (
        """
        def f(x):
            class Odd:
                def __eq__(self, other):
                    raise ValueError
            return Odd()
        """,
        0.0,
    ),
}

TIMED = {
    "one test of four sleeps": (
        "def f(x):\n    import time\n    time.sleep(9 if x == 2 else 0)\n    return 2 * x\n",
        0.75,
    ),
    "a time-out leaves later tests their time": (
        """
        def f(x):
            import time
            time.sleep(9 if x == 1 else 0.03)
            return 2 * x
        """,
        0.75,
    ),
    "the alarm is an exception that can be caught": (
        """
        def f(x):
            import time
            try:
                time.sleep(9 if x == 2 else 0)
            except Exception:
                pass
            return 2 * x
        """,
        1.0,
    ),
    "the alarm caught again and again, until it is over": (
        """
        def f(x):
            import time
            for _ in range(4 if x == 2 else 0):
                try:
                    time.sleep(0.6)
                except Exception:
                    pass
            return 2 * x
        """,
        1.0,
    ),
    "cancels the alarm": (
        "def f(x):\n    import time\n    signal.alarm(0)\n    time.sleep(0.6 if x == 2 else 0)\n    return 2 * x\n",
        1.0,
    ),
    "swallows everything": (
        "def f(x):\n    import time\n    while True:\n        try:\n            time.sleep(9)\n        except: pass\n",
        None,
    ),
}


EXPECTED = {name: value for name, (_, value) in (SCORES | TIMED).items()}


@pytest.fixture(scope="module")
def scores():
    """All of a kind in one run: what one answer does must not reach the next.

    The published limit is one of the clock, so that only the answers that are about time get a short one.
    """
    return graded(SCORES, timeout_s=10) | graded(TIMED, timeout_s=0.4)


def graded(texts, timeout_s):
    task = Task("t", "", DOUBLE, DOUBLE, FOUR_TESTS, {})
    answers = [Trajectory(task, (), textwrap.dedent(text).lstrip("\n")) for text, _ in texts.values()]
    with Sandbox(workers=2, timeout_s=timeout_s) as sandbox:
        return dict(zip(texts, CodeGrader(sandbox, grading="published").grade(answers), strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_as_the_original(scores, name):
    assert scores[name].value == EXPECTED[name], scores[name].note


def test_what_would_end_the_original_is_said(scores):
    notes = {name: score.note for name, score in scores.items() if score.value is None}
    assert notes == {
        "swallows everything": "would have ended the published run (hang)",
        "raises SystemExit": "would have ended the published run (SystemExit)",
        "a comparison that raises": "would have ended the published run (KeyError)",
    }
