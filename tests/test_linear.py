"""Work on a text takes time in proportion to it: one line of a model must not hold a run for a minute.

Every regular expression of sweet_rl is found here by itself and run on texts made of its own parts. One that is put
together while the program runs needs an example of it in MADE; one that takes longer is in SHORT, with what keeps
long texts from it.
"""

import ast
import contextlib
import importlib
import itertools
import json
import random
import re
import signal
import time
from collections import defaultdict
from functools import cache

import pytest

from sweet_rl.browsers.page import extract_html
from sweet_rl.chat.formats import read_back
from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.errors import SweetRLError
from sweet_rl.grading.code import lenient_code, published_code
from sweet_rl.mini.backend.human import ScriptedHuman, answer_served
from sweet_rl.mini.cities.oracle import _rules
from sweet_rl.mini.cities.table import read_question
from sweet_rl.mini.frontend.agents import Canvas, apply_remarks
from sweet_rl.mini.objects.language import _SHELLS, read_words
from sweet_rl.openai_client import shown
from sweet_rl.openai_client.replies import server_error
from sweet_rl.reflect_data.teachers import extract_action
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import AgentTurn, Message, Task, Trajectory
from sweet_rl.users.protocol import ServedMessage, read_request, reply_body, stream_body
from sweet_rl.worlds.adventures import is_refused, listed_actions, typed
from sweet_rl.worlds.auto_explore.repositories import split_command
from sweet_rl.worlds.dialogue import PARSERS
from sweet_rl.worlds.frontend_design.judging import read_verdict
from sweet_rl.worlds.webshop.pages import visible_nodes
from tests.conftest import ROOT

pytestmark = pytest.mark.xdist_group("linear")  # all expressions are looked for once
P = re._parser
ONE = {P.LITERAL, P.NOT_LITERAL, P.ANY, P.IN}
REPEATS = {P.MAX_REPEAT, P.MIN_REPEAT, P.POSSESSIVE_REPEAT}
METHODS = {"sub", "subn", "search", "match", "fullmatch", "findall", "finditer", "split"}
LETTERS = "a \n0\t-_.A\"'`<[({,:*#|=/\\é?x>])}$\u2028\x00"
"""The characters that stand for a class of them."""
ENDS = ("", "\x00", "\n!", "a", " ")
SIZES = (30, 300, 2_500, 20_000)
TINY_S = 0.02
PATIENCE_S = 2.0

MADE = {
    "chat.turns: f\"(?:{'|'.join([*map(re.escape, tokens), _MARK])})+\"": [
        r"(?:<\|im_end\|>|</s>|<[^<>\s]+>|\[[^\[\]\s]+\])+"
    ],
    "grading.code: f'^[ \\\\t]*(?:(?:async +)?def|class) +{re.escape(name)}\\\\b|^[ \\\\t]*{re.escape(name)} *='": [
        r"(?m)^[ \t]*(?:(?:async +)?def|class) +f\b|^[ \t]*f *="
    ],
    "grading.hidden_tests: announcement": [r"\b(?:class|def)\s+total\b|(?<![\w.])total\s?\("],
    "openai_client.dialect: f'(^|\\\\W|_){name}$'": [r"(^|\W|_)max[ _-]?tokens$"],
    "openai_client.dialect: f'\\\\b{name}\\\\b'": [r"\bmax_tokens\b"],
    "openai_client.dialect: marked if bare and (not _REFUSES.search(words)) or field == 'n' else pattern": [
        r"[`'\"\[.({]n\b|\bn[`'\":=\]]",
        r"(?<![A-Za-z0-9])max[ _-]?tokens(?![A-Za-z0-9])",
    ],
    "prompts: pattern": [r"\{problem_description\}|\{dialogue_history\}"],
    "studies.report.charts: f'--{name}: (#\\\\w+);'": [r"--ink: (#\w+);"],
    "training.encoding: '|'.join(marks) or '(?!)'": [r"<\|im_end\|>|</s>"],
    "training.encoding: re.escape(asked)": ["a a", "aaaa"],
    "worlds.alfworld.players: f'\\\\b{kind} {number}\\\\b'": [r"\bshelf 1\b"],
    "mini.backend.questions: f'(?<!\\\\w)(?:{either})(?!\\\\w)'": [
        r"(?i)(?<!\w)(?:multiplied\s+by\s+0\w*|more\s+than)(?!\w)"
    ],
    "mini.frontend.agents: f'\\\\b{name}\\\\b'": [r"(?i)\bred\b"],
    "mini.cities.oracle: self.like": {rule.like for rules in _rules().values() for rule in rules},
    "mini.cities.oracle: self.unlike": {rule.unlike for rules in _rules().values() for rule in rules},
    "mini.cities.oracle: f'\\\\b{re.escape(name)}\\\\b'": [r"\bnew york\b"],
    "mini.objects.language: shell": [shell for shell, _ in _SHELLS],
    "mini.shopper: f'(?<![\\\\w-]){re.escape(value.lower())}(?![\\\\w-]|\\\\.\\\\w)'": [
        r"(?<![\w-])light blue(?![\w-]|\.\w)"
    ],
}
SHORT = {
    "mini.cities.": (500, "of a question so many characters are read (`LONGEST_QUESTION`)"),
    "mini.objects.": (300, "a longer question is not understood (`LONGEST`)"),
    "browsers.assets: ": (4_000, "the package's own style sheet, a rule at a time"),
}
"""By how names of patterns begin: how long a text may be that meets them, and why none is longer."""


@cache
def found():
    """By where it stands, every pattern, and the methods that are called on it; the ones without an example."""
    trees = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text("utf-8")
        )
        for path in (ROOT / "sweet_rl").rglob("*.py")
        if "re." in path.read_text("utf-8")
    }
    called = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                called[name, node.value.id].add(node.attr)
    patterns, lacking = {}, []
    for name, tree in trees.items():
        module, space = name.removeprefix("sweet_rl."), {}
        with contextlib.suppress(ImportError):  # an integration whose tool is not installed
            space = vars(importlib.import_module(name))
        for variable, value in space.items():
            for each in (
                value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
            ):
                if isinstance(each, re.Pattern):
                    patterns[f"{module}.{variable}"] = each, called[name, variable] or {"search"}
        for call in ast.walk(tree):
            if not (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) in {f"re.{one}" for one in METHODS | {"compile"}}
            ):
                continue
            where, method = f"{module}: {ast.unparse(call.args[0])}", call.func.attr
            flags = [ast.unparse(one) for one in (*call.args, *(word.value for word in call.keywords))]
            flags = sum(
                {getattr(re, flag) for one in flags for flag in re.findall(r"re\.([A-Z]+)\b", one)}, re.NOFLAG
            )
            try:
                made = [eval(ast.unparse(call.args[0]), {"re": re} | space)]
            except (NameError, AttributeError):
                made = MADE.get(where)
            if made is None:
                lacking.append(where)
            for number, one in enumerate(made or ()):
                pattern = one if isinstance(one, re.Pattern) else re.compile(one, flags)
                known = any(pattern == other for other, _ in patterns.values())
                if not known:
                    patterns[f"{where} #{number}"] = pattern, {"search" if method == "compile" else method}
    return patterns, lacking


def accepts(op, arg, letter):
    """Whether a part of one character accepts this one."""
    match op:
        case P.LITERAL | P.NOT_LITERAL:
            return (chr(arg) == letter) == (op is P.LITERAL)
        case P.RANGE:
            return arg[0] <= ord(letter) <= arg[1]
        case P.CATEGORY:
            name = str(arg).rpartition("_")[2]
            is_one = {
                "SPACE": letter.isspace(),
                "DIGIT": letter.isdigit(),
                "WORD": letter.isalnum() or letter == "_",
            }
            return is_one[name] != ("_NOT_" in str(arg))
        case P.IN:
            return any(accepts(*one, letter) for one in arg if one[0] is not P.NEGATE) != (
                arg[0][0] is P.NEGATE
            )
    return letter != "\n"  # any


def letters(op, arg):
    """The characters that may stand for a part of one character."""
    own = [chr(one[1]) for one in arg if one[0] is P.LITERAL] if op is P.IN else []
    own += [chr(one[1][0]) for one in arg if one[0] is P.RANGE] if op is P.IN else []
    own += [chr(arg)] if op is P.LITERAL else []
    return [one for one in (*LETTERS, *own) if accepts(op, arg, one)] or ["a"]


def spelled(items, draws, repeats, said=""):
    """A text that the items accept, by chance; on the way, each repeat with what stands before it."""
    for op, arg in items:
        match op:
            case P.SUBPATTERN:
                said = spelled(arg[3], draws, repeats, said)
            case P.ATOMIC_GROUP:
                said = spelled(arg, draws, repeats, said)
            case P.BRANCH:
                said = spelled(draws.choice(arg[1]), draws, repeats, said)
            case P.ASSERT:
                spelled(arg[1], draws, repeats, said)
            case _ if op in REPEATS:
                least, most, inner = arg
                body = spelled(inner, draws, [])
                repeats.append((said, body))
                spelled(inner, draws, repeats, said)
                said += body * min(max(least, draws.choice([least, min(1, most)])), 50)
            case _ if op in ONE:
                said += draws.choice(letters(op, arg)[:3])
    return said


def used(items):
    """The characters that the items mention."""
    for op, arg in items:
        if op in ONE:
            yield from letters(op, arg)[:3]
        elif op in {P.ASSERT, P.ASSERT_NOT}:
            yield from used(arg[1])
        elif op is P.BRANCH:
            yield from itertools.chain.from_iterable(map(used, arg[1]))
        elif op in REPEATS or op in {P.SUBPATTERN, P.ATOMIC_GROUP}:
            yield from used(arg if op is P.ATOMIC_GROUP else arg[-1])


def attacks(pattern, draws):
    """(before, repeated, behind): texts made of a pattern's own parts, most of which it nearly matches."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = P.parse(
        source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    alphabet = list(dict.fromkeys(used(tree)))
    made = {
        ("", "".join(one))
        for one in draws.sample(
            [*itertools.permutations(alphabet[:12], 2)],
            min(20, len(alphabet[:12]) * (len(alphabet[:12]) - 1)),
        )
    }
    for _ in range(25):
        repeats = []
        whole = spelled(tree, draws, repeats)
        made |= {("", whole), ("", whole[: draws.randrange(len(whole) + 1)]), ("", whole[:-1])}
        for before, body in repeats:
            made |= {(before, body), ("", before + body), ("", before), (before, body + draws.choice("\n !"))}
    some = sorted(one for one in made if one[1])
    some = [(*one, draws.choice(ENDS)) for one in draws.sample(some, min(70, len(some)))]
    return some + [("", letter, end) for letter in alphabet[:15] for end in ENDS[:2]]


def seconds(work, text):
    """Of the processor, as others use it as well; given up after a while: expressions that take for ever listen to signals."""

    def give_up(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    started = time.process_time()
    try:
        work(text)
        return time.process_time() - started
    except TimeoutError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def growth(work, attack, limit=SIZES[-1], tiny_s=TINY_S):
    """What is wrong: a text for which twice the length takes more than three times as long; None: nothing."""
    before, repeated, behind = attack
    took = 0.0
    for size in (*(one for one in SIZES if one < limit), limit):
        if size == SIZES[-1] and took < tiny_s / 100:  # an eighth of it; its square is nothing yet
            break
        half, whole = (before + repeated * (many // len(repeated)) + behind for many in (size // 2, size))
        if (took := seconds(work, whole)) < tiny_s:
            continue
        times = [took / 4, took]
        for _ in range(5 if took < PATIENCE_S else 0):  # others use the machine as well
            times = [min(seconds(work, text) for _ in range(3)) for text in (half, whole)]
            if times[1] < max(3 * times[0], tiny_s):
                break
            if times[1] > 0.2:  # no hiccup
                return f"{attack} at {size:,} characters: {times[0]:.3f} s, then {times[1]:.3f} s"
        else:
            return f"{attack} at {size:,} characters: {times[0]:.3f} s, then {times[1]:.3f} s"
    return None


@pytest.mark.parametrize("part", range(8))
def test_no_regular_expression_takes_the_square_of_a_text(part):
    patterns, _ = found()
    wrong = {}
    for name, (pattern, methods) in sorted(patterns.items())[part::8]:
        limit = next((most for begins, (most, _) in SHORT.items() if name.startswith(begins)), SIZES[-1])
        for method in {"findall" if one in {"sub", "subn", "finditer", "split"} else one for one in methods}:
            for attack in attacks(pattern, random.Random(7)):
                if isinstance(pattern.pattern, bytes):
                    attack = tuple(text.encode() for text in attack)
                if problem := growth(getattr(pattern, method), attack, limit):
                    wrong[name] = f"{pattern.pattern!r}.{method}: {problem}"
                    break
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


def test_every_regular_expression_is_found():
    patterns, lacking = found()
    assert not lacking, "put an example of what it becomes into MADE"
    assert len(patterns) > 250
    assert all(any(name.startswith(begins) for name in patterns) for begins in SHORT)


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"\s+$", r"[\w.]*\w!", r"x(?:a|aa)*y"])
def test_what_takes_the_square_is_noticed(pattern):
    run = re.compile(pattern, re.MULTILINE)
    assert any(growth(run.findall, attack) for attack in attacks(run, random.Random(7)))


TEXTS = [
    *LETTERS, "```", "```python\n", "~~~\n", "<think>", "</think>", "a <think> ", "<think>a</think>", "[THINK]",
    "I WANT TO ANSWER:", "\nI WANT TO ANSWER:\n", "OUTPUT:", "\n@", "def f(", "def f(a):\n", "()", "f(a=", '{"a":', "a: -",
    "<html", "<body>", "</p>", "<!--", "<!", "<a b='", "&amp;", "action: ", "action 1", "```bash\n", "cat 'a' \\", "echo > ",
    "the ", "what is? ", "\n\n\n\nuser:", "user: ", "  ai  ", "<request>\n", "\n</dialogue>", "is it a ", " or ", ", a or ",
    "''' ", "\"\"\"'''", "x = 1\n", "search[a] ", "click[", "0. ", "go north. ", "a.a", "-1", "is the threshold 5? ", "VERDICT: ",
    "please give me the ", "https://picsum.photos/1", "http://a", "“a” and ", "The blue band 1 px from the left", "\ud800", "0" * 50,
]  # fmt: skip
HIDDEN = "def f(a):\n    return a > 3\n"
TASK = Task("t", "A function.", HIDDEN, HIDDEN, {"f": "f(1)"}, {})


def answered(text):
    """An episode that ends with a text, as one that is graded."""
    return Trajectory(TASK, (Message("user", "Hi."), AgentTurn("assistant", text)), text)


def streamed(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
    asked = read_request(json.dumps(body).encode(), chat=True)
    return stream_body(asked, reply_body(asked, [text], 1))


WORK = {
    "an answer, leniently": lambda text: lenient_code(answered(text), "f"),
    "an answer, as published": published_code,
    "an answer with a definition": lambda text: lenient_code(answered(f"def f(a):\n{text}"), "f"),
    "thoughts": split_thoughts,
    "thoughts behind a prompt": lambda text: split_thoughts(text, "<think>\n"),
    "a turn": PARSERS["fixed"],
    "a turn, as published": PARSERS["published"],
    "the scripted human": lambda text: ScriptedHuman().answer(
        TASK.problem_description, HIDDEN, [Message("user", "Hi."), Message("assistant", text)]
    ),
    "the scripted human's server": lambda text: answer_served(
        [ServedMessage("user", f"{HIDDEN}\nuser:Hi.\n\n\n\nassistant:{text}\n\n\n\nagent:")]
    ),
    "a prompt of the packaged kind": lambda text: answer_served(
        [ServedMessage("user", f"<request>\nHi.\n</request>\n<hidden_information>\n{HIDDEN}\n"
                               f"</hidden_information>\n<dialogue>\nuser:Hi.\n\n\n\nassistant:{text}\n\n\n\nagent:\n</dialogue>")]
    ),
    "a stream": streamed,
    "a page in a text": extract_html,
    "a page of a shop": visible_nodes,
    "a command in a repository": split_command,
    "a verdict": lambda text: read_verdict(text, order="AB"),
    "a label": lambda text: extract_action(text, ["1", "2"]),
    "offers": lambda text: offered_commands(f"Actions:\n{text}", "Actions:"),
    "a command": lambda text: (typed(text), is_refused(text)),
    "actions of a scene": listed_actions,
    "a question about a city": read_question,
    "a question about a thing": read_words,
    "remarks about a page": lambda text: apply_remarks(Canvas(), text),
    "a prompt read back": read_back,
    "an address": shown,
    "an error of a server": lambda text: server_error(text.encode("utf-8", "replace")),
}  # fmt: skip


@pytest.mark.parametrize("name", WORK)
def test_no_work_on_a_text_takes_the_square_of_it(name):
    def work(text):
        with contextlib.suppress(ValueError, LookupError, SweetRLError):  # a text may be refused
            WORK[name](text)

    problems = [growth(work, ("", text, ENDS[at % 2]), tiny_s=0.3) for at, text in enumerate(TEXTS)]
    assert not list(filter(None, problems))
