"""Arrange a meeting with a colleague whose wishes are hidden: ask what matters for this kind of meeting, then invite."""

from contextlib import asynccontextmanager
from random import Random

from sweet_rl import Message, Observation, StepResult, StopReason, UserContext, UserReply, World
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds.options import Answers, Scores, TaskLists

TOPICS = {
    "day": ("Which day suits you?", ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]),
    "hour": ("At what time?", ["9:00", "11:00", "14:00", "16:00"]),
    "length": ("How long do you have?", ["30 minutes", "45 minutes", "60 minutes", "90 minutes"]),
    "place": ("Where shall we meet?", ["my office", "your office", "the library", "the garden"]),
    "call": ("Which system do you use for calls?", ["telephone", "video", "chat"]),
    "food": ("What would you like to eat?", ["soup", "salad", "pasta", "sushi"]),
    "guest": ("Who comes along?", ["Ada", "Grace", "Alan", "Edsger"]),
    "paper": ("Which document should I bring?", ["the budget", "the draft", "the contract", "the photos"]),
    "notes": ("Who takes notes?", ["you do", "I do", "nobody"]),
    "language": ("In which language?", ["English", "French", "Spanish", "German"]),
}
MATTERS = {
    "lunch": ["day", "hour", "food", "guest"],
    "call": ["hour", "length", "call", "language"],
    "review": ["day", "place", "paper", "notes"],
    "interview": ["hour", "guest", "language", "notes"],
    "briefing": ["length", "place", "paper", "call"],
}
ASK = {question: topic for topic, (question, _) in TOPICS.items()}
OF = {value: topic for topic, (_, values) in TOPICS.items() for value in values}
INVITE = "Invitation: "


class Colleague:
    """Answers what it is asked, in a word; knows nothing but its wishes."""

    name = "colleague"

    async def reply(self, context):
        wishes = dict(wish.split(": ") for wish in context.hidden_information.split("\n"))
        said = context.messages[-1].content.strip()
        return UserReply(wishes.get(ASK.get(said, ""), "I do not mind.") if said in ASK else "Pardon?")

    async def close(self):
        pass


class MeetingEnv:
    def __init__(self, user, turns):
        self.user, self.turns, self.over = user, turns, True

    async def reset(self, task, *, seed):
        self.task, self.over = task, False
        self.seen = Observation(task.task_id, (Message("user", task.problem_description),), seed)
        return self.seen

    async def step(self, action):
        if self.over:
            return StepResult(action, action, None, terminated=True)
        messages = (*self.seen.messages, Message("assistant", action))
        last = self.seen.turn >= self.turns
        if action.startswith(INVITE) or last:
            self.over = True
            done = action.startswith(INVITE)
            return StepResult(
                action,
                action,
                None,
                reward(action, self.task),
                done,
                not done,
                StopReason.ENDED if done else StopReason.TURN_LIMIT,
            )
        context = UserContext(self.task.problem_description, self.task.hidden_information, messages)
        reply = await self.user.reply(context)
        self.seen = Observation(
            self.seen.task_id, (*messages, Message("user", reply.content)), self.seen.seed
        )
        return StepResult(action, action, self.seen, 0.0)

    async def close(self):
        self.over = True


def reward(action, task):
    """The share of wishes that the invitation meets; two values of a topic meet none."""
    wishes = dict(wish.split(": ") for wish in task.hidden_information.split("\n"))
    if not action.startswith(INVITE):
        return 0.0
    named = action.removeprefix(INVITE).rstrip(".").split(", ")
    met = [t for t, v in wishes.items() if v in named and sum(OF.get(n) == t for n in named) == 1]
    return len(met) / len(wishes)


def asker(skill):
    def say(seen):
        rng = Random(f"{seen.seed} {seen.turn}")
        asked = [m.content for m in seen.messages if m.role == "assistant"]
        answers = [m.content for m in seen.messages[2::2] if m.content in OF]
        if len(asked) == 4 or (skill == "hasty" and len(asked) >= 2):
            return INVITE + ", ".join(answers) + "."
        kind = next(k for k in MATTERS if k in seen.messages[0].content)
        good = [TOPICS[t][0] for t in MATTERS[kind] if TOPICS[t][0] not in asked]
        left = [q for q in ASK if q not in asked]
        return rng.choice(good if skill == "careful" and good else left)

    return say


class Meeting(World):
    """Arrange a meeting with a colleague: ask for their wishes, then send the invitation."""

    name, max_turns, agents = "meeting", 5, {"careful": {}, "clueless": {}, "hasty": {}}
    tasks = TaskLists("meetings:train", "meetings:test")
    user = Answers(by="human", scripted=Colleague)
    scores = Scores(lowest=0.0, highest=1.0, ceiling_and_floor=("careful", "hasty"))

    def rows(self, source, where, *, limit, seed):
        rng = Random(f"meetings {where}")
        rows = []
        for number in range(200 if limit is None else limit):
            kind = rng.choice(list(MATTERS))
            wishes = {t: rng.choice(TOPICS[t][1]) for t in MATTERS[kind]}
            rows.append(
                {
                    "task_id": f"meeting/{where}/{number}",
                    "problem_description": f"Arrange a {kind} with my colleague.",
                    "hidden_information": "\n".join(f"{t}: {v}" for t, v in wishes.items()),
                    "ground_truth": INVITE + ", ".join(wishes.values()) + ".",
                }
            )
        return rows

    @asynccontextmanager
    async def open(self, options, user):
        yield lambda: MeetingEnv(user, self.turns(options))

    async def make_agent(self, wanted):
        return TeacherPolicy(asker(wanted.name))

    def system_prompt(self):
        return "Arrange the meeting. Ask one question a turn, then write 'Invitation: ' and what you learned."


WORLD = Meeting()
