"""The scripted human who compares both pages: deterministic, and without a model."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from sweet_rl.browsers import Box, PageContext, RenderedPage
from sweet_rl.mini.frontend.human import words
from sweet_rl.mini.frontend.human.differences import Remark, compare, describe
from sweet_rl.mini.frontend.human.page_parser import parse_page
from sweet_rl.mini.frontend.human.scene import Scene
from sweet_rl.types import Message, UserContext, UserReply

LIMIT: Final = 1000
"""Characters of a reply: what the world lets the agent see."""

_TOPICS: Final = {
    "color": re.compile(r"\b(?:colou?rs?|palette|background|shades?|dark|light|theme)\b", re.IGNORECASE),
    "picture": re.compile(r"\b(?:images?|pictures?|photos?|logo|icons?|illustrations?)\b", re.IGNORECASE),
    "text": re.compile(r"\b(?:texts?|words?|wording|titles?|head(?:ing|line)s?|say|fonts?)\b", re.IGNORECASE),
}

Key = tuple[bytes, tuple[Box, ...]]


class ScriptedViewer:
    """Compares what the two browsers' windows show and names the most salient differences in plain words.

    It says nothing of the source, which it is never shown. An agent that has no page yet hears of the
    wanted one, first of what it asked about, and nothing twice. Wanted pages are remembered for a while,
    since they come back in every turn.
    """

    name = "scripted"

    def __init__(self) -> None:
        self._targets: OrderedDict[Key, Scene] = OrderedDict()

    async def reply(self, context: UserContext) -> UserReply:
        """At most `LIMIT` characters."""
        if not isinstance(context, PageContext):
            raise TypeError("a human with eyes needs a PageContext")
        return UserReply(await asyncio.to_thread(self.answer, context))

    async def close(self) -> None:
        """Do nothing: the human has no connection."""

    def answer(self, context: PageContext) -> str:
        """What differs between draft and target, or what the target is like without a draft."""
        target = self._recall(context.target)
        if context.draft is None:
            return _about_the_target(describe(target), context.messages)
        remarks = compare(target, parse_page(context.draft))
        return _together([remark.sentence for remark in remarks]) if remarks else words.ALIKE

    def _recall(self, page: RenderedPage) -> Scene:
        key = (sha256(page.image).digest(), page.boxes)
        scene = self._targets.pop(key, None) or parse_page(page)
        self._targets[key] = scene  # the last one to be forgotten
        while len(self._targets) > 256:
            self._targets.popitem(last=False)
        return scene


def _about_the_target(remarks: list[Remark], messages: Iterable[Message]) -> str:
    earlier = "\n".join(message.content for message in messages if message.role == "user")
    asked = next((m.content for m in reversed(list(messages)) if m.role == "assistant"), "")
    topics = {topic for topic, pattern in _TOPICS.items() if pattern.search(asked)}
    new = [remark for remark in remarks if remark.sentence not in earlier]
    new.sort(key=lambda remark: remark.about not in topics)  # stable: the most striking first within each
    sentences = [remark.sentence for remark in new or remarks]
    return _together([words.NOTHING_SHOWN, *sentences])


def _together(sentences: Iterable[str]) -> str:
    """As many sentences as fit, in their order; one that does not leaves its room to shorter ones."""
    chosen: list[str] = []
    room = LIMIT
    for sentence in sentences:
        if len(sentence) <= room:
            chosen.append(sentence)
            room -= len(sentence) + 1
    return " ".join(chosen)
