"""Write a notice for a client who comments on drafts, which reveals what it has to say; the last draft is graded."""

from contextlib import asynccontextmanager
from random import Random

from sweet_rl import Message, Observation, StepResult, StopReason, UserContext, UserReply, World
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds.options import Answers, Scores, TaskLists

FACTS = {
    "what": ["concert", "flea market", "lecture", "picnic"],
    "day": ["Monday", "Wednesday", "Friday", "Sunday"],
    "hour": ["10:00", "14:00", "17:00", "20:00"],
    "place": ["town hall", "old mill", "school yard", "market square"],
}
OPEN = "..."  # a fact that is left open
FINAL = "Final: "


def text_of(facts):
    """A notice with these facts, and the others left open."""
    what, day, hour, place = (facts.get(name, OPEN) for name in FACTS)
    return f"Come to the {what} on {day} at {hour}, {place}!"


def facts_in(text):
    """The facts that a notice names; one that is named twice counts as wrong."""
    named = {name: [value for value in values if value in text] for name, values in FACTS.items()}
    return {name: values[0] if len(values) == 1 else "?" for name, values in named.items() if values}


def wanted_by(task):
    """The facts of a task."""
    return facts_in(task.ground_truth)


def grade(text, wanted):
    """The share of the facts that a text has right, less a quarter for each that it has wrong; not below 0."""
    found = facts_in(text)
    signs = [
        (found[name] == value) - (found[name] != value) for name, value in wanted.items() if name in found
    ]
    return max(0.0, sum(signs) / len(wanted))


class Client:
    """Reads a draft, and names the first fact that is missing or wrong."""

    name = "client"

    async def reply(self, context):
        wanted, found = facts_in(context.hidden_information), facts_in(context.messages[-1].content)
        amiss = [(name, value) for name, value in wanted.items() if found.get(name) != value]
        return UserReply(f"The {amiss[0][0]}: {amiss[0][1]}." if amiss else "Fine as it is.")

    async def close(self):
        pass


class NoticeEnv:
    """One notice."""

    def __init__(self, user, turns):
        self.user, self.turns, self.over = user, turns, True

    async def reset(self, task, *, seed):
        self.task, self.over = task, False
        self.seen = Observation(task.task_id, (Message("user", task.problem_description),), seed)
        return self.seen

    async def step(self, action):
        if self.over:
            return StepResult(action, action, None, terminated=True)
        final, last = action.startswith(FINAL), self.seen.turn + 1 >= self.turns
        if final or last:
            self.over = True
            reward = grade(action, wanted_by(self.task)) if final else 0.0
            reason = StopReason.ENDED if final else StopReason.TURN_LIMIT
            return StepResult(action, action, None, reward, final, not final, reason)
        messages = (*self.seen.messages, Message("assistant", action))
        reply = await self.user.reply(
            UserContext(self.task.problem_description, self.task.hidden_information, messages)
        )
        self.seen = Observation(
            self.seen.task_id, (*messages, Message("user", reply.content)), self.seen.seed
        )
        return StepResult(action, action, self.seen, 0.0)

    async def close(self):
        self.over = True


def writer(skill):
    """Drafts until the client is content (patient), two drafts (hurried), or invents what it does not know (inventive)."""

    def say(seen):
        rng = Random(f"{seen.seed} {seen.turn}")
        known = facts_in(" ".join(message.content for message in seen.messages if message.role == "user"))
        done = (
            seen.messages[-1].content == "Fine as it is."
            or len(known) == len(FACTS)
            or (skill != "patient" and seen.turn == 2)
        )
        if skill == "inventive":
            known |= {name: rng.choice(values) for name, values in FACTS.items() if name not in known}
        return f"{FINAL if done else ''}{text_of(known)}"

    return say


class Notice(World):
    """Write a notice for a client who reads drafts."""

    name, max_turns, agents = "notice", 6, {"patient": {}, "hurried": {}, "inventive": {}}
    tasks = TaskLists("notices:train", "notices:test")
    user = Answers(by="human", scripted=Client)
    scores = Scores(lowest=0.0, highest=1.0, ceiling_and_floor=("patient", "inventive"))

    def rows(self, source, where, *, limit, seed):
        drawn, rows = Random(f"notices {where}"), []
        for place in range(200 if limit is None else min(200, limit)):
            facts = {name: drawn.choice(values) for name, values in FACTS.items()}
            rows.append(
                {
                    "task_id": f"notice/{where}/{place}",
                    "problem_description": f"Write a notice about our {facts['what']}.",
                    "ground_truth": text_of(facts),
                }
            )
        return rows

    @asynccontextmanager
    async def open(self, options, user):
        yield lambda: NoticeEnv(user, self.turns(options))

    async def make_agent(self, wanted):
        return TeacherPolicy(writer(wanted.name))

    def system_prompt(self):
        return f"Write drafts; the client says what is amiss. Begin the last one with '{FINAL}'."


WORLD = Notice()
