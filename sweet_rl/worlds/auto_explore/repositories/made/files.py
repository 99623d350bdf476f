"""Files of made repositories: each a few lines with facts in them, and the questions these facts answer.

A fact's value is drawn once in a repository, so that the file with it is the only one that can answer.

No word of the topics is part of another, and none is dropped by the published filters (`ci`, `out`, `test` and `git` anywhere in a
path drop it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

ENTITIES: Final = (
    *("orders", "invoices", "parcels", "bookings", "coupons", "reviews", "payments", "refunds", "tickets"),
    *("members", "lessons", "recordings", "sensors", "harvests", "lanterns", "bridges", "ferries", "kettles"),
    *("maps", "stamps", "gardens", "violins", "telescopes", "bakeries", "museums", "libraries", "trams"),
)
PEOPLE: Final = (
    *("Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hiroshi", "Ingrid", "Jomo", "Katya"),
    *("Leandro", "Mireille", "Nadia", "Oskar", "Priya", "Quentin", "Rosalind", "Soren", "Tamsin", "Umberto"),
    *("Valeria", "Wanda", "Xavier", "Yusuf", "Zelda"),
)
PLACES: Final = (
    *("Bergen", "Cordoba", "Dakar", "Esfahan", "Fukuoka", "Galway", "Hobart", "Izmir", "Jaipur", "Kumasi"),
    *("Leipzig", "Maputo", "Nantes", "Oaxaca", "Porto", "Quito", "Riga", "Salta", "Tartu", "Uppsala"),
)
THINGS: Final = (
    *("apples", "blankets", "candles", "drums", "envelopes", "flutes", "gloves", "hammers", "inkwells"),
    *("jars", "kites", "ladders", "mirrors", "needles", "onions", "pencils", "quilts", "ropes", "saddles"),
    *("teapots", "umbrellas", "vases", "whistles", "yarns", "zithers", "baskets", "carpets", "spoons"),
)
COLOURS: Final = (
    *("amber", "crimson", "indigo", "ivory", "jade", "maroon", "ochre", "scarlet", "teal", "violet"),
)
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
PROJECTS: Final = (
    *("Driftwood", "Foxglove", "Heron", "Juniper", "Larkspur", "Marigold", "Nightjar", "Osprey", "Pinecone"),
    *("Quartz", "Rosemary", "Sandpiper", "Thistle", "Willow"),
)
LICENCES: Final = ("Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Zlib")


class Question(NamedTuple):
    """Something a user might ask, and what the file says about it."""

    question: str
    answer: str


class MadeFile(NamedTuple):
    """One file: its path, its text, what it answers."""

    path: str
    text: str
    questions: tuple[Question, ...]


class Draws:
    """Values for one repository: whatever was drawn is not drawn again."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._used = set[str]()

    def pick(self, pool: Sequence[str]) -> str:
        """One of a pool that was not picked before; the pool must not be used up."""
        word = self.rng.choice([word for word in pool if word not in self._used])
        self._used.add(word)
        return word

    def number(self, low: int, high: int) -> str:
        """A number from `low` to `high` that was not drawn before; there must be one left."""
        number = str(self.rng.randint(low, high))
        while number in self._used:
            number = str(self.rng.randint(low, high))
        self._used.add(number)
        return number

    def ask(self, *wordings: str) -> str:
        """One of the wordings, drawn with equal chance."""
        return self.rng.choice(wordings)


Maker = Callable[[str, str, Draws], MadeFile]
"""A folder (with its `/`, or ""), what the file is about, and where values come from."""


def code(folder: str, about: str, draws: Draws) -> MadeFile:
    """A module with two constants."""
    wait, tries = draws.number(11, 999), draws.number(1000, 9999)
    text = (
        f'"""Everything that is done with {about}."""\n\n'
        f"WAIT_S = {wait}  # seconds until it gives up\nBATCH = {tries}  # sent at once\n\n\n"
        f"def send_{about}(client):\n    return client.send('{about}', wait_s=WAIT_S, batch=BATCH)\n"
    )
    return MadeFile(
        f"{folder}{about}.py",
        text,
        (
            Question(
                draws.ask(
                    f"How many seconds does the code for {about} wait?",
                    f"After how many seconds does the code give up on {about}?",
                ),
                wait,
            ),
            Question(
                draws.ask(
                    f"How many {about} does the code send in one batch?",
                    f"What is the batch size in the code for {about}?",
                ),
                tries,
            ),
        ),
    )


def manual(folder: str, about: str, draws: Draws) -> MadeFile:
    """A page of documentation about who is in charge."""
    person, room = draws.pick(PEOPLE), draws.number(100, 999)
    text = (
        f"# {about.capitalize()}\n\n{person} looks after the {about}.\nThe office is in room {room}.\n\n"
        f"Before you change anything about the {about}, ask there.\n"
        "Write down what was changed, when and why, so that others find it again later on.\n"
    )
    return MadeFile(
        f"{folder}{about}.md",
        text,
        (
            Question(
                draws.ask(
                    f"Who looks after the {about}, according to the documentation?",
                    f"Which person do the docs name for {about}?",
                ),
                person,
            ),
            Question(
                draws.ask(
                    f"In which room is the office for {about}?",
                    f"The docs name an office for {about}. Which room is it?",
                ),
                room,
            ),
        ),
    )


def settings(folder: str, about: str, draws: Draws) -> MadeFile:
    """A configuration with a port and a place; in a folder of its own it says for what it is."""
    port, place = draws.number(2000, 9999), draws.pick(PLACES)
    stage = folder.rstrip("/").rpartition("/")[2]
    where = f" in {stage}" if stage in {"production", "staging"} else ""
    text = (
        f"# How the {about} are reached, and where they run.\n"
        f"{about}:\n  port: {port}\n  region: {place}\n"
        "  protocol: https\n  log_level: info\n  retries: 3\n"
        "  read_only: false\n  compress: true\n  cache: true\n"
    )
    return MadeFile(
        f"{folder}{about}.yaml",
        text,
        (
            Question(
                draws.ask(
                    f"Which port is configured for {about}{where}?",
                    f"On which port does the service for {about}{where} listen?",
                ),
                port,
            ),
            Question(
                draws.ask(
                    f"Which region is configured for {about}{where}?",
                    f"In which region does the configuration put {about}{where}?",
                ),
                place,
            ),
        ),
    )


def table(folder: str, about: str, draws: Draws) -> MadeFile:
    """A table of six rows; what is asked about is in the first four, which are shown."""
    rows = [(draws.pick(THINGS), draws.number(10, 9999)) for _ in range(6)]
    text = "item,count,unit,checked\n" + "".join(f"{thing},{count},boxes,yes\n" for thing, count in rows)
    del rows[4:]
    thing, count = draws.rng.choice(rows)
    other, number = draws.rng.choice([row for row in rows if row[0] != thing])
    return MadeFile(
        f"{folder}{about}.csv",
        text,
        (
            Question(
                draws.ask(
                    f"How many {thing} does the table of {about} count?",
                    f"What is the count of {thing} in the data on {about}?",
                ),
                count,
            ),
            Question(f"One of the tables counts {other}. How many are there?", number),
        ),
    )


def script(folder: str, about: str, draws: Draws) -> MadeFile:
    """A shell script with a time of the night in it."""
    time = f"{draws.number(0, 23)}:{draws.number(24, 59)}"
    text = (
        f"#!/bin/sh\n# Every night at {time}: save the {about}.\nset -e\n"
        f"mkdir -p backup\ncp -r data/{about} backup/\n"
        f"echo 'all of the {about} are saved in the folder backup'\n"
    )
    question = draws.ask(
        f"At what time are the {about} saved every night?",
        f"When does the script for {about} run?",
    )
    return MadeFile(f"{folder}save_{about}.sh", text, (Question(question, time),))


def notes(folder: str, about: str, draws: Draws) -> MadeFile:
    """Minutes of a meeting: the name has its date, not its topic."""
    person, thing, colour = (
        draws.pick(PEOPLE),
        draws.pick(THINGS),
        draws.pick(COLOURS),
    )
    text = (
        f"Notes of {about.capitalize()}\n\n{person} will bring the {thing}.\n"
        f"The new sign will be {colour}.\n\nEverybody was there, and nobody was late.\n"
        "What is still open goes on the list for the next meeting.\nThere was tea and cake.\n"
    )
    return MadeFile(
        f"{folder}{about}.md",
        text,
        (
            Question(
                draws.ask(
                    f"In which meeting did somebody promise to bring the {thing}, and who was it?",
                    f"Who promised in a meeting to bring the {thing}?",
                ),
                person,
            ),
            Question(f"On which day was a {colour} sign agreed on?", about.capitalize()),
        ),
    )


def run(folder: str, about: str, draws: Draws) -> MadeFile:
    """The result of an experiment: the name is a number, the question is about what was tried."""
    rate, score = f"0.{draws.number(1000, 4999)}", f"0.{draws.number(5000, 9999)}"
    text = (
        f'{{\n  "learning_rate": {rate},\n  "accuracy": {score},\n  "layers": 2,\n'
        '  "optimizer": "adam",\n  "shuffled": true,\n'
        '  "seed": 1,\n  "finished": true\n}\n'
    )
    question = draws.ask(
        f"What accuracy did the experiment with learning rate {rate} reach?",
        f"Which accuracy belongs to a learning rate of {rate}?",
    )
    return MadeFile(f"{folder}{about}.json", text, (Question(question, score),))


def readme(_folder: str, about: str, draws: Draws) -> MadeFile:
    """The page that everybody sees first."""
    person, licence = draws.pick(PEOPLE), draws.pick(LICENCES)
    text = (
        f"# {about}\n\n{about} was begun by {person}.\nIts licence is {licence}.\n\n"
        "Every folder holds one sort of thing, and names say what a file is about.\n"
        "If something is missing, look at the neighbours of the file first.\n"
    )
    return MadeFile(
        "README.md",
        text,
        (
            Question(f"Who began {about}?", person),
            Question(draws.ask(f"Which licence does {about} have?", f"How is {about} licensed?"), licence),
        ),
    )


def changes(_folder: str, about: str, draws: Draws) -> MadeFile:
    """What changed in two versions."""
    new, old = f"3.{draws.number(10, 99)}", f"2.{draws.number(10, 99)}"
    thing, other = draws.pick(THINGS), draws.pick(THINGS)
    text = (
        f"Changes of {about}\n\n{new}: {thing} are supported.\n{old}: {other} are supported.\n"
        "1.0: the first version that others could use, without much in it.\n"
        "Older versions are kept nowhere, and nobody misses them.\n"
    )
    question = f"Since which version of {about} are {thing} supported?"
    return MadeFile("CHANGES.md", text, (Question(question, new),))
