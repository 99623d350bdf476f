"""What the agent wants to know: its last message as questions, each with words, topics and constants.

Reads English by its surface. It need not understand a message, only find out which facts could answer it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweet_rl.users.scripted.facts import Topic
from sweet_rl.users.scripted.words import numbers_in, quotes_in, stems


class Intent(StrEnum):
    """What a message, or one sentence of it, is after."""

    DETAIL = "detail"
    MORE = "more"
    CONFIRM = "confirm"
    CODE = "code"
    STATEMENT = "statement"


@dataclass(frozen=True, slots=True)
class Question:
    """One sentence of the agent, taken apart.

    `triggers` are the topics with the words (stems) that name them; `subject` are the words that are left without those that only name a topic ("threshold", "rounded").
    `polar` questions want a yes or a no; `edge` asks whether the edge of a threshold counts.
    """

    intent: Intent
    text: str
    words: frozenset[str]
    subject: frozenset[str]
    triggers: Mapping[Topic, frozenset[str]]
    numbers: frozenset[float]
    texts: frozenset[str]
    polar: bool = False
    edge: bool = False

    @property
    def topics(self) -> frozenset[Topic]:
        """What the question is about."""
        return frozenset(self.triggers)


_FENCED = re.compile(r"```.*?(```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[?!])\s+|(?<=[.:])\s+(?=[A-Z\d\-*])|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)]|\(?[a-h]\))\s+")

_DEMANDS_CODE = re.compile(
    r"\b(paste|print|show|give|send|repeat|dump|reveal|output|write out|recite|provide|copy|share|display|list|quote"
    r"|need|want|see|have)\b(?:\s+(?:me|us|out))?"
    r"(?:\s+(?:the|your|its|full|entire|whole|complete|exact|actual|hidden|original|source|python|reference|all|of|raw"
    r"|every|line|lines|verbatim|literal|body|system|previous|initial|function's|correct|implemented|working))*"
    r"\s+(code|source|implementation|function|hidden[_ ]information|ground[_ ]truth|solution|prompt|instructions"
    r"|body|lines|def)\b(?!\s+(?:signature|name|parameter|input|output|argument|should|do|return|need|take|handle))"
    r"|\bverbatim\b|\bword for word\b|\beverything above\b|\bignore (?:all |the |your |any )*(?:previous|prior|above)\b"
    r"|\bhidden[_ ]information\b|\bground[_ ]truth\b|\bsource code\b",
    re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"\b(?:does|do|is|are|did|would|have)\b(?: \w+){0,3}? (?:look|looks|sound|sounds|seem|make sense|correct|right|okay|ok"
    r"|what you (?:want|need|had)|match|understood|accurate|good|acceptable|work for you)\b|\bis (?:this|that) (?:it|fine)\b"
    r"|\bcorrect\?|\bright\?",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:anything|something|what) else\b|\bmore (?:detail|information|info|about|specific|context)|\btell me more\b"
    r"|\b(?:any|what|other|additional|further|specific|special|particular|more) (?:\w+ )?(?:requirement|detail|rule|constraint"
    r"|consideration|information|condition)s?\b|\belaborate\b|\bgo on\b|\bwhat (?:exactly )?(?:do|would) you (?:want|need|like)\b"
    r"|\bwhat should (?:it|the function) do\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:and |so |also,? |then |please |now |but )*(?:what|which|how|when|where|who|why|is|are|does|do|did|should|can|could"
    r"|will|would|has|have|must|may|if)\b|\b(?:please|tell me|let me know|clarify|specify|describe|explain|provide|share"
    r"|need to know|like to know|confirm|wondering|assum\w+|i need|i'd like|give me|what)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:and |so |also,? |then |please |ok(?:ay)?,? |great,? |thanks?[,.!]? |now |but |first,? |hi[,!]? )*"
    r"(?:(?:can|could|would|will) you (?:please |also |kindly |just )?(?:tell|let|explain|clarify|provide|specify|describe"
    r"|share|give|confirm|elaborate|help|be)\b(?: me| us| know)?|do you (?:know|have)|would you like|tell me|i'?d like to know)\s*",
    re.IGNORECASE,
)
_POLAR = re.compile(
    r"^(?:is|are|does|do|did|should|can|could|will|would|has|have|must|may|whether|if|am i|i assume|i'll assume|so)\b"
    r"|, (?:right|correct)\?$",
    re.IGNORECASE,
)
_ABOUT_OUTPUT = re.compile(r"\b(?:return|output|result)", re.IGNORECASE)
_ABOUT_INPUT = re.compile(r"\b(?:input|param|argument)", re.IGNORECASE)
_EDGE = re.compile(
    r"\binclusive\b|\bexclusive\b|\bexactly\b|\bequals?\b|\bincluded?\b|\bstrict(?:ly)?\b", re.IGNORECASE
)

_TRIGGERS: dict[Topic, re.Pattern[str]] = {
    topic: re.compile(pattern, re.IGNORECASE)
    for topic, pattern in {
        Topic.DEFAULT: r"\bdefault|\boptional|\bomit|\bnot (?:provided|given|specified|passed|supplied)|\bleft? out",
        Topic.THRESHOLD: r"\bthreshold|\blimit|\bcut-?off|\bboundar|\bminimum|\bmaximum|\bmin\b|\bmax\b|\branges?\b|\btier"
        r"|\bbracket|\bcriteri|\bconditions?\b|\bexceed|\babove\b|\bbelow\b|\binclusive|\bat (?:least|most)\b|\bcap(?:ped|s)?\b"
        r"|\bhow (?:many|much|long|high|low|far|big|old)\b|\brules?\b|\bcount as\b|\bconsidered\b|\bqualif",
        Topic.MINIMUM: r"\bminimum|\bmin\b|\bsmallest|\blowest|\bat least\b|\bnever (?:less|below|under)|\bfloor\b",
        Topic.MAXIMUM: r"\bmaximum|\bmax\b|\bcap(?:ped|s)?\b|\bupper limit|\blargest|\bat most\b|\btruncat|\bcut off\b|\bceiling\b",
        Topic.MORE: r"\bbonus|\bextra\b|\bincreas|\badd(?:ed|s|itional)?\b|\bsurcharge|\bgain|\breward|\bappend",
        Topic.LESS: r"\bdiscount|\bsubtract|\bdeduct|\bpenal|\breduc|\blose\b|\bdecreas|\bcheaper",
        Topic.FORMULA: r"\bformula|\bhow (?:many|much)\b|\bcalculat|\bcomput|\bdetermin|\bweight|\bfactor|\bmultipl|\brates?\b|\bpercent|\bcombin"
        r"|\bderive|\bhow (?:is|are|do|does|should|would|exactly)\b|\bscor|\bsubtract|\bdivid|\badjust|\bequation|\bsteps?\b"
        r"|\blogic\b|\balgorithm",
        Topic.OUTPUT: r"\breturn|\boutput|\bformat|\btype\b|\bgive back|\bstructure|\bresult look",
        Topic.RESULT: r"\breturn|\bresult\b|\boutput|\boutcome",
        Topic.LABEL: r"\blabel|\bcategor|\bpossible|\boptions?\b|\bmessage|\bwording|\bstrings?\b|\bnames?\b|\bvalues\b"
        r"|\bstatus|\blevels?\b|\bgrades?\b|\bclass",
        Topic.INPUT: r"\binput|\bparam|\bargument|\bstructure|\bformat|\btype\b|\bkeys?\b|\bfields?\b|\bcolumn|\bcontain"
        r"|\brepresent|\bdictionar|\battribute",
        Topic.EMPTY: r"\bempty|\bmissing|\bnone\b|\bnull|\bblank|\bno (?:items|data|values|elements|input)|\bnot found",
        Topic.ERROR: r"\berror|\bexception|\binvalid|\braise|\bnegative|\bvalidat|\bedge cases?|\bfail\b|\bzero\b",
        Topic.OTHERWISE: r"\botherwise|\belse\b|\bother (?:cases|values|categor|types)|\bdefault|\bunknown|\bfallback|\bnot match"
        r"|\brest\b|\bremaining|\bnot in\b|\bunrecogni|\bnone of\b|\bany other|\bnot found|\banything that",
        Topic.ROUND: r"\bround|\bdecimal|\bprecision|\binteger|\bwhole number|\bfloat",
        Topic.CASE: r"\bcase[- ](?:in)?sensitiv|\bupper|\blower ?-?case|\bcapitali[sz]|\bcapital letter|\bletter case",
        Topic.ORDER: r"\bsort|\bordering\b|\border of\b|\bascending|\bdescending|\balphabetical"
        r"|\b(?:what|which|any|specific|particular|same) order\b",
    }.items()
}


def questions_in(message: str) -> list[Question]:
    """The questions of a message in their order; one statement if there is none."""
    text = _FENCED.sub("\n", message)
    sentences = [_BULLET.sub("", part).strip() for part in _SENTENCE_END.split(text)]
    questions = [_understand(sentence) for sentence in sentences if len(sentence) > 1]
    asked = [question for question in questions if question.intent is not Intent.STATEMENT]
    demands = [question for question in asked if question.intent is Intent.CODE]
    return demands or asked or questions[:1] or [_understand("")]


def _understand(sentence: str) -> Question:
    subject, triggers = sentence, {}
    for topic, trigger in _TRIGGERS.items():
        subject = trigger.sub(" ", subject)
        if found := trigger.findall(sentence):
            triggers[topic] = stems(" ".join(found))
    if _ABOUT_OUTPUT.search(sentence) and not _ABOUT_INPUT.search(sentence):
        triggers.pop(Topic.INPUT, None)  # "in what format should it be returned?"
    return Question(
        intent=_intent(sentence),
        text=sentence,
        words=stems(sentence),
        subject=stems(subject),
        triggers=triggers,
        numbers=numbers_in(sentence),
        texts=quotes_in(sentence),
        polar=bool(_POLAR.search(_POLITE.sub("", sentence))) and not re.search(r"\bor\b", sentence),
        edge=bool(_EDGE.search(sentence)),
    )


def _intent(sentence: str) -> Intent:
    if _DEMANDS_CODE.search(sentence):
        return Intent.CODE
    if not sentence.endswith("?") and not _ASKS.search(sentence):
        return Intent.STATEMENT
    if _MORE.search(sentence):
        return Intent.MORE
    if _CONFIRMS.search(sentence):
        return Intent.CONFIRM
    return Intent.DETAIL
