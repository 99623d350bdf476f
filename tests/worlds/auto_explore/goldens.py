"""The recorded behaviour of AutoExplore, and our wordings turned into its tags."""

import json
import re
from functools import cache

from sweet_rl.prompts import load_prompt
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.types import Task
from sweet_rl.worlds.auto_explore.sandbox import PieceCounter

TAGS = {
    "explore_truncated": ("\n...\n{}\n", "<MSG_TRUNCATED lines={lines} tokens={tokens}>"),
    "explore_no_command": ("{}", "<MSG_NO_COMMAND allowed={commands}>"),
    "explore_outside": ("{}", "<MSG_OUTSIDE file={file} cwd={folder}>"),
    "explore_unsupported": ("{}", "<MSG_UNSUPPORTED allowed={commands}>"),
}


def tagged(text):
    """The text with each of our sentences replaced by the goldens' tag."""
    for name, (around, tag) in TAGS.items():
        sentence = re.escape(around.format("SENTENCE")).replace(
            "SENTENCE", re.escape(load_prompt(name).strip())
        )
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", sentence)
        text = re.sub(pattern, lambda found, tag=tag: tag.format(**found.groupdict()), text)
    return text


@cache
def load(shared):
    return json.loads((shared / "goldens/reflect_rl/auto_explore.json").read_text())


def shop_folder(shared):
    return shared / "goldens/reflect_rl/fixtures/repos"


def task(question, targets, root="shop", **more):
    row = {"root": root, "targets": list(targets), **more}
    return Task("auto_explore/0", question, targets[0], "", {}, row)


class CharacterCounter(PieceCounter):
    """A token is a character: what the recorded episodes count."""

    longest = 1

    def cut(self, text, limit):
        return text[:limit]

    def count(self, text):
        return len(text)


class Scripted(EmbeddedTeacher):
    """A teacher that reads its replies from a list."""

    name = "scripted"

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    async def say(self, asked):
        self.asked.append(list(asked.messages))
        return self.replies.pop(0)
