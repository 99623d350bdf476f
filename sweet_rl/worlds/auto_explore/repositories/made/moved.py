"""Folders whose files have moved: two hops from what is asked about to the file that answers.

What a question names is in no name of a file, and no file says what it is about. One file of the folder says
who keeps a thing, and where they keep it: topic, then owner, then file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sweet_rl.worlds.auto_explore.repositories.made.files import (
    COLOURS,
    PEOPLE,
    PLACES,
    Draws,
    MadeFile,
    Question,
)

INDEX: Final = "MOVED.md"
"""The file that says where everything is."""

KIND: Final = "moved"
"""How these repositories are called: `moved-17`."""

_FILES: Final = 6
"""In a folder, beside the one that says where they are: as many chances to guess."""


class _Sort(NamedTuple):
    """What the files of a folder say: lines with two facts in them, and questions about a topic."""

    path: str
    suffix: str
    text: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    values: Callable[[Draws], tuple[str, str]]


_SORTS: Final = (
    _Sort(
        "docs/",
        ".md",
        "# The office\n\n{owner} keeps this page.\nThe office is in room {first}.\nIts telephone has the number "
        "{second}.\n\nBefore you change anything, ask there.\nWrite down what was changed, when and why, so that "
        "others find it again later on.\n",
        (
            "In which room is the office for {topic}?",
            "The docs name an office for {topic}. Which room is it?",
        ),
        ("Which number has the telephone of the office for {topic}?",),
        lambda draws: (draws.number(100, 999), draws.number(1000, 9999)),
    ),
    _Sort(
        "config/",
        ".yaml",
        "# {owner} keeps this configuration: how the service is reached, and where it runs.\nservice:\n  port: {first}\n  region: {second}\n  protocol: https\n"
        "  log_level: info\n  retries: 3\n  compress: true\n  read_only: false\n  cache: true\n",
        (
            "Which port is configured for {topic}?",
            "On which configured port does the service for {topic} listen?",
        ),
        ("Which region is configured for {topic}?",),
        lambda draws: (draws.number(1000, 9999), draws.pick(PLACES)),
    ),
    _Sort(
        "lib/{one}/",
        ".py",
        '"""{owner} keeps this code."""\n\nWAIT_S = {first}  # seconds until it gives up\n'
        "BATCH = {second}  # sent at once\n\n\ndef send(client, things):\n"
        "    return client.send(things, wait_s=WAIT_S, batch=BATCH)\n",
        ("How many seconds does the code for {topic} wait?",),
        (
            "How many things does the code for {topic} send in one batch?",
            "What is the batch size in the code for {topic}?",
        ),
        lambda draws: (draws.number(100, 999), draws.number(1000, 9999)),
    ),
)


def moved_files(topics: Sequence[str], one: str, draws: Draws) -> list[MadeFile]:
    """The files of two folders; each has the one that says where the others are."""
    made: list[MadeFile] = []
    for sort in draws.rng.sample(_SORTS, 2):
        folder = sort.path.format(one=one)
        about = draws.rng.sample(list(topics), _FILES)
        owners = [draws.pick(PEOPLE) for _ in about]
        names = [f"{colour}{sort.suffix}" for colour in draws.rng.sample(COLOURS, _FILES)]
        made.append(
            _index(
                folder, dict(zip(about, owners, strict=True)), dict(zip(owners, names, strict=True)), draws
            )
        )
        for topic, owner, name in zip(about, owners, names, strict=True):
            made.append(_moved(sort, f"{folder}{name}", topic, owner, draws))
    return made


def _index(folder: str, owners: dict[str, str], names: dict[str, str], draws: Draws) -> MadeFile:
    """Two lists in an order of their own: the second is not that of the first."""
    lines = [
        "\n".join(f"{key}: {value}" for key, value in draws.rng.sample(list(pairs.items()), len(pairs)))
        for pairs in (owners, names)
    ]
    text = f"# Where things are\n\nWho keeps them:\n{lines[0]}\n\nWhere they keep them:\n{lines[1]}\n"
    return MadeFile(f"{folder}{INDEX}", text, ())


def _moved(sort: _Sort, path: str, topic: str, owner: str, draws: Draws) -> MadeFile:
    first, second = sort.values(draws)
    asked = (
        Question(draws.ask(*sort.first).format(topic=topic), first),
        Question(draws.ask(*sort.second).format(topic=topic), second),
    )
    return MadeFile(path, sort.text.format(owner=owner, first=first, second=second), asked)
