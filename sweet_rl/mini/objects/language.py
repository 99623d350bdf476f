"""The English of Twenty Questions: words, stems, the frames of questions, phrases to look up.

It knows nothing of the objects. Stems need not be words: two forms of a word have to fall together, two words
apart. What is special is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

LONGEST = 300
"""Characters of a question that are read; a longer one is not understood."""


def set_of(words: str) -> frozenset[str]:
    """The set of the words of a string."""
    return frozenset(words.split())


SOFT = set_of(
    "called either whole entire fully "
    "a an the some any it its this these those they them their there here thing something anything one "
    "ones objects things items object item of to in at as by from into onto over under near around inside "
    "within upon through is are am was were be been being do did can could would will may might should "
    "must you i we your my our me us yourself somebody someone anyone everybody everyone very really "
    "quite usually typically often commonly generally normally mostly mainly primarily sometimes ever "
    "maybe perhaps probably likely considered either known just actually also too all typical regular "
    "normal particular certain so such like which that who whom where when while if per general purpose "
    "frequently only even both able most about get got go specific average ordinary standard another "
    "way located same especially enough next "
)
"""Words that a phrase may have between its own, and that say nothing alone."""

_FORMS = {
    "leaves": "leaf", "knives": "knife", "feet": "foot", "teeth": "tooth", "mice": "mouse", "geese":
    "goose", "men": "man", "women": "woman", "children": "child", "kids": "kid", "persons": "people",
    "humans": "human", "shelves": "shelf", "wolves": "wolf", "lives": "live", "loaves": "loaf", "halves":
    "half", "scarves": "scarf", "clothes": "clothing", "has": "have", "having": "have", "had": "have",
    "does": "do", "uses": "use", "using": "use", "used": "use", "ate": "eat", "eaten": "eat", "wore":
    "wear", "worn": "wear", "made": "make", "found": "find", "kept": "keep", "driven": "drive", "drove":
    "drive", "ridden": "ride", "rode": "ride", "flown": "fly", "flies": "fly", "held": "hold", "grown":
    "grow", "thrown": "throw", "drawn": "draw", "written": "write", "wrote": "write", "sung": "sing",
    "blown": "blow", "bought": "buy", "sold": "sell", "built": "build", "drunk": "drink", "seen": "see",
    "sat": "sit", "slept": "sleep", "swum": "swim", "shaken": "shake", "broken": "break", "hung": "hang",
    "caught": "catch", "played": "play", "lying": "lie", "laid": "lay", "ridable": "ride", "paintings":
    "painting", "earrings": "earring", "strings": "string", "buildings": "building", "beds": "bed", "buses":
    "bus", "glasses": "glass", "gloves": "glove", "hooves": "hoof",
    "smoothies": "smoothie", "shoes": "shoe", "colour": "color", "colours": "color",
    "coloured": "colored", "colors": "color", "grey": "gray", "wooden": "wood", "metallic": "metal",
    "woollen": "wool", "organisation": "organization", "2": "two", "3": "three", "4": "four", "6": "six",
    "8": "eight", "10": "ten", "seas": "sea", "sees": "see", "tv": "television", "tvs": "television",
    "fries": "fry", "jewellery": "jewelry", "wings": "wing", "rings": "ring", "springs": "spring",
    "outdoors": "outdoor", "indoors": "indoor", "hundreds": "hundred", "seeds": "seed", "needs": "need",
    "planes": "plane", "pins": "pin", "caps": "cap", "hate": "dislike", "hats": "hat", "cars": "car",
    "stars": "star", "ties": "tie", "pies": "pie", "dies": "die", "dying": "die", "plans": "plan", "cuts":
    "cut", "cutting": "cut", "pans": "pan", "cans": "can", "bites": "bite", "bits": "bit", "sits": "sit",
    "rated": "rate", "rats": "rat", "pets": "pet", "notes": "note", "sliced": "slice", "bigger": "big",
    "smaller": "small", "larger": "large", "heavier": "heavy", "lighter": "light", "longer": "long",
    "taller": "tall", "shorter": "short", "faster": "fast", "slower": "slow", "wider": "wide", "thicker":
    "thick", "utensils": "utensil", "batteries": "battery", "berries": "berry", "cherries": "cherry",
    "movies": "movie", "cookies": "cookie", "veggies": "veggie", "potatoes": "potato", "tomatoes": "tomato",
    "axes": "axe",
}  # fmt: skip
"""Forms that no rule finds, and other spellings."""

_KEPT = set_of(
    "bar bare bed bit bite bore building bus can cane canvas cap cape car care ceiling chess cloth "
    "clothing colored cut cute dice earring evening feed gas glue hat iris king legged lens living lose "
    "morning need not note painting pan pane past paste people pet pete pie pin pine plan plane rat red "
    "ring rob robe sea seed shaped sided sit site sole spring star stare sting string tap tape tennis tie "
    "tub tube wedding weed wheeled wing "
)
"""Words whose last letters are no ending, or that would fall together with another word."""


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """What the forms of a word have in common: `cuts`, `cutting` and `cut` become `cut`."""
    word = _FORMS.get(word, word)
    if len(word) > 3 and word not in _KEPT:
        word = _singular(word)
    if len(word) > 3 and word not in _KEPT:
        word = _without_ending(word)
    return word


def _singular(word: str) -> str:
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return _FORMS.get(word, word)


def _without_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and re.search("[aeiouy]", base):
            return base[:-1] if base[-1] == base[-2] and base[-1] not in "sle" else base
    return word[:-1] if word.endswith("e") and not word.endswith("ee") else word


_WORDS = re.compile(r"[^\W_]+")
_MOSTLY = "(?:mostly|mainly|primarily|usually|only|typically)"
_CONTRACTIONS = (
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bit's\b|\bits (?=an? )"), "it is "),
    (re.compile(r"\b(what|who|where|that|there|he|she)'s\b"), r"\1 is"),
    (re.compile(r"'(?:s|d|ll|re|ve|m)\b|'"), ""),
    (re.compile(r"\bt[ -]shirt"), "tshirt"),
    (re.compile(r"\b(?:put|place|set|keep|store) (?:things?|stuff|objects|items|something) on\b"), "load on"),
    (
        re.compile(r"\b(?:put|place|keep|store|carry|hold) (?:things?|stuff|objects|items|something) in"),
        "store in",
    ),
    (re.compile(rf"\b{_MOSTLY}( worn| used)? by (?:women|girls)\b"), r"\1 feminine"),
    (re.compile(rf"\b(worn|used) {_MOSTLY} by (?:women|girls)\b"), r"\1 feminine"),
    (re.compile(r"\ban? (?:object|thing|item)$"), "tangible"),
    (re.compile(r"\beat (?:dinner |food |meals? )?at\b"), "dine"),
    (re.compile(r"\bin (?:colou?r|shape|size|appearance)\b"), " "),
    (re.compile(r"\b(?:types?|kinds?|sorts?|forms?|examples?) of\b"), " "),
)
_GREETING = (
    r"(?:ok|okay|so|well|hm+|um+|uh+|ah+|oh|alright|right|now|then|and|but|please|great|cool|nice|yes|no|"
    r"good|aha|also|tell me if|tell me whether|next question|question|first|next|finally|i wonder if|"
    r"could you tell me if|can you tell me if|i want to know if|let me guess|final guess|my guess|"
    r"my question is) "
)
_OPENING = re.compile(
    rf"^(?:{_GREETING})*"
    r"(?:(?:do you think|would you say|would you consider|can you say|is it true|is it correct)"
    r"(?: that)? (?=it |this |that |the )|)"
)
_THOUGHT = (
    r"(?: (?:that )?(?:i am|you are|you|i) (?:looking for|thinking of|thinking about|guessing|have in mind))?"
)
_SUBJECT = (
    r"(?:the |this |that |your |my )?(?:secret |hidden |mystery |mysterious |correct |final )?"
    rf"(?:object|thing|item|word|answer|noun|secret|guess){_THOUGHT}"
)
_SHELLS = (
    (r"^(?:is|are) (?:you|we) (?:thinking|talking) (?:of|about) ", "is it "),
    (rf"^(is|does|can|could|would|will|has|was|do|are) {_SUBJECT} ", r"\1 it "),
    (
        (
            rf"^(?:i think |i guess |i believe |i say |maybe |perhaps )?(?:that )?(?:{_SUBJECT}|it|this) "
            r"(?:is|could be|must be|might be|may be|has to be) "
        ),
        "is it ",
    ),
    (r"^(?:it|this) (?:has|have) ", "does it have "),
    (r"^(?:it|this) (?=can|does|will|would)", ""),
    (r"^(?:is|are|was|were) (?:he|she|this|that|they|these|those|what you are thinking of) ", "is it "),
)
_CLOSING = re.compile(
    r"(?: (?:(?:is|are|does|do|can|was) not (?:it|they|you)|right|correct|please|thanks|thank you|"
    r"yes or no|true|or not|or no|or something like that|or something similar|or something|or anything|"
    r"or so|at all|then|true or false|by any chance|in general|or what|am i right|now|yet|perhaps|maybe|"
    r"though|(?:on|from) the (?:out|in)side))+$"
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question: as written (lower case) and its stem."""

    text: str
    stem: str

    @property
    def soft(self) -> bool:
        """Whether a phrase may have it between its own words."""
        return self.text in SOFT


def read_words(question: str) -> list[Word]:
    """The words of one question without what people put around it; empty when there is no one question.

    "Hmm, okay. So is the object you're thinking of alive, or not?" is "is it alive".
    """
    if len(question) > LONGEST:
        return []
    sentences = [plain for part in re.split(r"[?!.;:]+(?:\s|$)|\n", question) if (plain := _plain(part))]
    if len(sentences) != 1:
        return []
    return [Word(word, stem(word)) for word in sentences[0].split()]


def _plain(sentence: str) -> str:
    text = sentence.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    if " or " in text:
        text = re.sub(r",(?! *(?:or|is|are|does|do|can|could|would|will|has)\b)(?=.* or )", " or ", text)
    text = " ".join(_WORDS.findall(text))
    text = _OPENING.sub("", text + " ").strip()
    text = re.sub(
        r"^(is|are|does|do|can|could|would|will|has|was) not (it|this|that|you|they|people)\b", r"\1 \2", text
    )
    if re.fullmatch(_GREETING + "*", text + " "):
        return ""
    text = _CLOSING.sub("", text)
    for shell, replacement in _SHELLS:
        text = re.sub(shell, replacement, text + " ").strip()
    return text


@dataclass(slots=True)
class Phrases:
    """A dictionary of phrases, looked up by stems, the longest first."""

    entries: dict[str, list[tuple[tuple[str, ...], int]]] = field(default_factory=dict)

    def add(self, phrase: str, value: int, *, whole: bool = False) -> None:
        """Let a phrase mean a value, or that one too when it means another already."""
        words = _WORDS.findall(re.sub(r"\b(?:type|kind|sort|form) of\b|'s", "", phrase.lower()))
        hard = words if whole else [word for word in words if word not in SOFT] or words
        stems = tuple(stem(word) for word in hard)
        found = self.entries.setdefault(stems[0], [])
        for place, (known, meaning) in enumerate(found):
            if known == stems:
                found[place] = (known, meaning | value)
                return
        found.append((stems, value))
        found.sort(key=lambda entry: -len(entry[0]))

    def match(self, words: Sequence[Word], start: int) -> tuple[int, int, int] | None:
        """The longest phrase that begins at a place: its words, its meaning, the place behind it."""
        for stems, value in self.entries.get(words[start].stem, ()):
            place, taken = start + 1, 1
            while taken < len(stems) and place < len(words):
                if words[place].stem == stems[taken]:
                    taken += 1
                elif not words[place].soft:
                    break
                place += 1
            if taken == len(stems):
                return taken, value, place
        return None


def longest(
    dictionaries: Iterable[Phrases], words: Sequence[Word], start: int
) -> tuple[int, int, int] | None:
    """The longest match of several dictionaries; of equal ones the first."""
    best: tuple[int, int, int] | None = None
    for phrases in dictionaries:
        found = phrases.match(words, start)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best
