"""The embedded teacher of AutoExplore: what it asks about a file, how it searches for one, what it says of
the search.

It asks what the shown text answers, by plain patterns; what another file could answer as well is not asked.
It searches by names that it has seen and contents that it has read, and learns whether a file answers when it
opens it, no sooner. Its sentences claim no more than an agent can see; draws vary them, so that a model
learns the thought, not a phrase.
"""

from __future__ import annotations

import csv
import posixpath
import re
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.mini.repositories import INDEX, make_repository
from sweet_rl.types import derive_seed
from sweet_rl.worlds.auto_explore.repositories import Entry, is_allowed, kind_of, next_command, unwrap

_TEXTS: Final[dict[str, Any]] = tomllib.loads(
    files("sweet_rl.mini").joinpath("repository_teacher.toml").read_text("utf-8")
)
_DEFINED: Final = re.compile(
    r"^[^\S\n]*+(?:public |private |static |async )*(?:def|class|func|function|fn)\s+([A-Za-z]\w+)",
    re.MULTILINE,
)
_VALUE: Final = re.compile(
    r"""^[ \t]*+(?:(?:export|const|final)[ \t]++)*([A-Za-z_]\w*+)\s*+[:=]\s*+"""
    r"""([\d.]+|"[^"\n]+"|'[^'\n]+')[ \t,;]*$""",
    re.MULTILINE,
)
_ANY_NAME: Final = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface)\s+([A-Za-z_]\w*)|\b([A-Za-z_]\w*)[\"']?\s*[:=](?!=)"
)
"""Whatever might define a name or give it a value, in any language: rather too much than too little."""
_SENTENCE: Final = re.compile(r"[A-Z][^.!?\n#|{}<>]{15,200}+[.!?]")
_STATEMENT: Final = re.compile(
    r"(?P<what>.{4,100}?) (?P<verb>is|are|was|were|costs|takes|opens|closes|holds|needs|contains|has|have) "
    r"(?P<rest>.+)"
)
_NUMBER: Final = re.compile(r"[\d.,:%$-]*")
_HEADING: Final = re.compile(r"^#+\s+(\S.{2,80})$", re.MULTILINE)


class _Fact(NamedTuple):
    """Something to ask about: the question, its answer, and whether a text says something about the same, too."""

    question: str
    answer: str
    also_in: Callable[[str], bool]


def known_questions(
    repository: str, path: str, text: str, shown: str, draws: Random, *, others: Sequence[str]
) -> str:
    """A reply in the layout that a model is asked for: an analysis, then up to three pairs about what is
    `shown` of `text`.
    """
    kind = kind_of(path) if kind_of(path) in {"text", "data"} else "code"
    if made := _made_questions(repository, path, text):
        chosen = draws.sample(made, min(3, len(made)))
    else:
        find = {"code": _about_code, "text": _about_text, "data": _about_table}[kind]
        facts = find(shown, draws)
        shuffled = draws.sample(facts, len(facts))
        only_here = (fact for fact in shuffled if not any(map(fact.also_in, others)))
        chosen = [(fact.question, fact.answer) for fact in islice(only_here, 3)]
    lines = ["# ANALYSIS", f"The file {path} is {kind}; it answers {len(chosen)} of the questions below."]
    for number, (question, answer) in enumerate(chosen, start=1):
        lines += [f"- QUERY{number}: {question}", f"- ANSWER{number}: {answer}"]
    return "\n".join(lines)


def _made_questions(repository: str, path: str, text: str) -> list[tuple[str, str]]:
    """The questions that a made repository comes with, if the file is one of these and unchanged."""
    try:
        made = make_repository(repository)
    except UsageError:
        return []
    if made.files.get(path) != text:
        return []
    return [(task.question, task.answer) for task in made.tasks if task.filename == path]


def _about_code(content: str, draws: Random) -> list[_Fact]:
    facts = []
    for name in dict.fromkeys(_DEFINED.findall(content)):
        words = _words(name)
        question = _say("questions", "defined", draws, words=words)
        facts.append(_Fact(question, f"It is done by `{name}`.", _names(name)))
    for name, value in dict.fromkeys(_VALUE.findall(content)):
        words = _words(name)
        question = _say("questions", "value", draws, words=words)
        facts.append(_Fact(question, f"{name} is {value}.", _names(name)))
    return facts


def _about_text(content: str, _: Random) -> list[_Fact]:
    facts = []
    for sentence in dict.fromkeys(_SENTENCE.findall(content)):
        if statement := _STATEMENT.match(sentence):
            what, verb = statement["what"], statement["verb"]
            what = what[0].lower() + what[1:] if not what[:2].isupper() else what
            is_there = verb in {"is", "are", "was", "were"}
            question = f"What {verb} {what}?" if is_there else f"I need to know what {what} {verb}."
            also_in = _says(what)
        else:
            words = [word for word in re.findall(r"[A-Za-z][\w-]{3,}", sentence) if word[0].islower()]
            longest = sorted(dict.fromkeys(words), key=lambda word: (-len(word), word))[:3]
            keywords = [word for word in dict.fromkeys(words) if word in longest]
            keywords = keywords or [sentence.rstrip(".!?")]
            question, also_in = f"What is written about {', '.join(keywords)}?", _says(*keywords)
        facts.append(_Fact(question, sentence, also_in))
    for heading in dict.fromkeys(map(str.strip, _HEADING.findall(content))):
        answer = f"Under the heading {heading}."
        facts.append(_Fact(f"Where do I read about {heading}?", answer, _says(heading)))
    for name, value in dict.fromkeys(_VALUE.findall(content)):
        facts.append(_Fact(f"Which {_words(name)} is configured?", f"{name} is {value}.", _names(name)))
    return facts


def _about_table(content: str, draws: Random) -> list[_Fact]:
    delimiter = "\t" if "\t" in content else ","
    rows = [row for row in csv.reader(content.splitlines(), delimiter=delimiter) if len(row) > 1]
    has_header = len(rows) > 1 and not any(_NUMBER.fullmatch(cell.strip()) for cell in rows[0])
    facts = []
    for row in rows[has_header:]:
        cells = [cell.strip() for cell in row]
        named = next((at for at, cell in enumerate(cells) if not _NUMBER.fullmatch(cell)), 0)
        at = draws.choice([other for other in range(len(cells)) if other != named])
        what = _words(rows[0][at]) if has_header and at < len(rows[0]) else "number"
        facts.append(_Fact(f"What is the {what} of {cells[named]}?", cells[at], _says(cells[named])))
    return facts


def _names(name: str) -> Callable[[str], bool]:
    """Whether a text defines something, or gives it a value, whose name has the words of this one."""
    words = _words(name)
    return lambda text: words in _names_in(text)


def _says(*phrases: str) -> Callable[[str], bool]:
    """Whether all of the phrases stand in a text, in upper or lower case, broken or not."""
    wanted = [_plain(phrase) for phrase in phrases]
    return lambda text: all(phrase in _plain(text) for phrase in wanted)


@lru_cache(maxsize=10_000)
def _names_in(text: str) -> frozenset[str]:
    return frozenset(_words(name or value) for name, value in _ANY_NAME.findall(text))


@lru_cache(maxsize=10_000)
def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _words(name: str) -> str:
    """The words that an identifier is made of: snake case and camel case."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name).lower().split()) or name


class Clue(NamedTuple):
    """What speaks for a name: how many words of the question, and the first of them that is in it."""

    words: int = 0
    shared: str = ""


class Pointer(NamedTuple):
    """What a file that says where things are says of what is looked for: topic, owner, file."""

    topic: str
    owner: str
    path: str


class Plan(NamedTuple):
    """What to do next, as the game offers it; what its name suggests; how much else there is to try in this folder."""

    command: str
    clue: Clue = Clue()
    others: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search, as an agent can know it.

    `opened` are paths of files that were shown, in order; `content` what the last command showed of one;
    `found` the opened file that answers; `pointer` what an opened file says of where the answer is.
    """

    question: str
    folder: str
    opened: Sequence[str]
    content: str
    found: str | None
    plan: Plan
    pointer: Pointer | None = None


class Explorer:
    """The seen part of one repository, and what to look at next; `answers` count as found when they were
    opened.
    """

    def __init__(self, question: str, answers: Collection[str], *, seed: int = 0) -> None:
        self._question, self._answers, self._seed = question, frozenset(answers), seed
        self._asked = tuple(dict.fromkeys(re.findall(r"[a-z]{2,}|\d+", question.lower())))
        self._listed = set[str]()
        self._is_folder: dict[str, bool] = {}
        self._opened: list[str] = []
        self.content = ""  # what the last command showed of a file
        self._pointer: Pointer | None = None

    def look(self, folder: str, entries: Sequence[Entry]) -> None:
        """Remember the entries of a folder."""
        self._listed.add(folder)
        for entry in entries:
            if entry.is_folder or is_allowed(entry.name):
                self._is_folder[posixpath.join(folder, entry.name)] = entry.is_folder

    def read(self, path: str, content: str) -> None:
        """Record an opened file; one that says where things are is followed from a word of the question to an
        owner, to a file.
        """
        self._opened.append(path)
        self.content = content
        is_index = posixpath.basename(path) == INDEX
        lines = dict(re.findall(r"^(\w+): (\S+)$", content, re.MULTILINE)) if is_index else {}
        for topic, owner in lines.items():
            if owner in lines and any(alike(asked, topic) for asked in self._asked):
                self._pointer = Pointer(topic, owner, posixpath.join(posixpath.dirname(path), lines[owner]))
                break

    def search(self, folder: str) -> Search:
        """The state of the search in a folder."""
        # where another file says which one answers, that is the only way to know
        told, inside = self._pointer, self._is_folder
        found = next(
            (
                path
                for path in self._opened
                if (path == told.path if told else path in self._answers)
                and (told or posixpath.join(posixpath.dirname(path), INDEX) not in inside)
            ),
            None,
        )
        plan = self._plan(folder, found)
        return Search(self._question, folder, tuple(self._opened), self.content, found, plan, told)

    def _plan(self, folder: str, found: str | None) -> Plan:
        if found is not None:
            return Plan(next_command(folder, found, opened=True))
        if self._pointer is not None:
            return Plan(next_command(folder, self._pointer.path))
        places = [path for path in self._is_folder if path not in self._listed and path not in self._opened]
        if not places:  # all was opened: the name that says most
            best = max(self._opened, key=self._clues, default="")
            return Plan(next_command(folder, best, opened=True) if best else "")

        def order(path: str) -> tuple[int, int, bool, int]:
            """What most speaks for, then what is near, folders before files, then any."""
            here, there = folder.split("/") if folder else [], path.split("/")[:-1]
            way = len(here) + len(there) - 2 * len(posixpath.commonprefix([here, there]))
            return -self._clues(path), way, not self._is_folder[path], derive_seed(self._seed, path)

        best = min(places, key=order)
        command = next_command(folder, f"{best}/." if self._is_folder[best] else best)
        others = sum(
            posixpath.dirname(path) == folder and self._is_folder[path] == command.startswith("cd ")
            for path in places
            if path != best
        )
        return Plan(command, self._clue(unwrap(command.partition(" ")[2])), others)

    def _clues(self, path: str) -> int:
        """How much speaks for a path: its own name, and those of the folders that it lies in."""
        return sum(self._clue(name).words for name in path.split("/"))

    def _clue(self, name: str) -> Clue:
        if name == INDEX:
            return Clue(1)
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.rpartition(".")[0] or name)
        words = re.findall(r"[a-z]{2,}|\d+", spaced.lower())
        usual = [word for one in words for word in _TEXTS["kept_in"].get(one, "").split()]
        shared = [asked for asked in self._asked if any(alike(asked, word) for word in words)]
        meant = [asked for asked in self._asked if any(alike(asked, word) for word in usual)]
        return Clue(len({*shared, *meant}), shared[0] if shared else "")


def alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: map and maps, config and configured, licence and licensed.

    They share their first five letters and at most four follow, or the shorter, of at least three, begins the
    longer one.
    """
    common = len(posixpath.commonprefix([one, other]))
    shorter, longer = sorted((len(one) - common, len(other) - common))
    if common >= 5:
        return longer <= 4
    return longer == 0 or (shorter == 0 and common >= 3 and longer < 4)


_WORD: Final = re.compile(r"[a-z]{3,}|\d[\d.]*\d|\d")
_COMMON: Final = frozenset(
    _WORD.findall(
        "about and any are can change code data did does file files find for from get has have how into know "
        "listed many need not number our row rows say script service should show that the there this use "
        "used user users want was what when where which who why with written would you"
    )
)


def thought(search: Search, draws: Random) -> str:
    """The text before a choice: at most three short sentences."""
    return _pointed(search, draws) or f"{_so_far(search, draws)} {_next(search, draws)}"


def second_thought(search: Search, draws: Random) -> str:
    """The text after a wrong file was opened: why it is wrong, and how to continue."""
    if pointed := _pointed(search, draws):
        return pointed
    name = posixpath.basename(search.opened[-1]) if search.opened else "this file"
    subject, there = _subject(search.question, draws), _in_order(search.content)
    asked = _in_order(search.question) if there else []
    missing = next((word for word in asked if not any(alike(word, other) for other in there)), "")
    kinds = ("wrong", "missing") if missing else ("wrong",)  # a word that the content has not, in no form
    sentence = draws.choice([sentence for kind in kinds for sentence in _TEXTS["so_far"][kind]])
    said = sentence.format(name=name, subject=subject, missing=missing)
    return f"{said} {_next(search, draws)}"


def _so_far(search: Search, draws: Random) -> str:
    subject = _subject(search.question, draws)
    if search.found is not None:
        name = posixpath.basename(search.found)
        if search.pointer is not None:
            return f"{INDEX} led to {name}."
        return _say("so_far", "found", draws, name=name, subject=subject)
    if search.opened and search.content:
        return f"{posixpath.basename(search.opened[-1])} does not answer the question."
    where = f"{search.folder}/" if search.folder else "the root folder"
    kind = "nothing_found" if search.opened else "nothing_opened"
    return _say("so_far", kind, draws, where=where, subject=subject)


def _pointed(search: Search, draws: Random) -> str:
    """The thought right behind a file that says where things are, and behind the one that it named; else "".

    From the topic to its owner, from there to the file, no word twice: a small model that can look up finds
    each.
    """
    if search.pointer is None or not search.content:
        return ""
    topic, owner, path = search.pointer
    name, hands_in = posixpath.basename(path), search.plan.command.startswith("id ")
    verb = draws.choice(("Now identify", "Identify", "I hand in") if hands_in else ("Open", "Next look into"))
    if search.opened[-1].endswith(INDEX):
        return f"{verb} what it says for {topic}: {owner}: {name}."
    return f"{verb} what was shown, as {INDEX} says: cat {name}." if search.opened[-1] == path else ""


def _next(search: Search, draws: Random) -> str:
    """The plan, with what speaks for it; where nothing does, that it is a try."""
    word, _, rest = search.plan.command.partition(" ")
    if word == "id":
        if search.found is None:
            return f"Nothing is left to open. {rest} is the best guess."
        return _say("next", "id", draws, name=rest)
    if rest == "..":
        return _say("next", "up", draws, where=f"{search.folder}/")
    why = _why(search, draws)
    return _say("next", "cd" if word == "cd" else "cat", draws, name=rest, why=why)


def _why(search: Search, draws: Random) -> str:
    """What speaks for the plan's name: a word of the question, what is usual, or nothing at all."""
    command, clue, others = search.plan
    if search.pointer is not None:
        return f"as {INDEX} says"
    if clue.shared:
        return f"its name speaks of {clue.shared}"
    if command.endswith(INDEX):
        return _say("why", "index", draws)
    if clue.words:
        return _say("why", "usual_folder" if command.startswith("cd ") else "usual_file", draws)
    return _say("why", "try" if others else "last", draws)


def _say(part: str, kind: str, draws: Random, **values: str) -> str:
    sentence: str = draws.choice(_TEXTS[part][kind])
    return sentence.format(**values)


def _subject(question: str, draws: Random) -> str:
    words = _in_order(question)
    if not words:
        return "what is asked"
    start = draws.randrange(max(1, len(words) - 1))
    return " ".join(words[start : start + 2])


def _in_order(text: str) -> list[str]:
    return [word for word in dict.fromkeys(_WORD.findall(text.lower())) if word not in _COMMON]
