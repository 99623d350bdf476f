"""Arrange a meeting with a colleague whose wishes are hidden: ask what matters for this kind of meeting, then invite.

A model can play the colleague: `sweet-rl simulate_interactions ... --env_base_url URL --user_prompt_path colleague.txt`.
"""

from random import Random

from sweet_rl import BaseEnv, User, UserReply, World
from sweet_rl.errors import no_such
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds import Answers, Scores, TaskLists

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
ASKED = {question: topic for topic, (question, _) in TOPICS.items()}
TOPIC_OF = {value: topic for topic, (_, values) in TOPICS.items() for value in values}
INVITE = "Invitation: "


def wishes_of(task):
    return dict(line.split(": ") for line in task.hidden_information.split("\n"))


class Colleague(User):
    name = "colleague"

    async def reply(self, context):
        topic = ASKED.get(context.messages[-1].content.strip())
        return UserReply(wishes_of(context).get(topic, "I do not mind.") if topic else "Pardon?")


class MeetingEnv(BaseEnv):
    """The reward is the share of the wishes that the invitation meets; two values of one topic meet none."""

    async def turn(self, action):
        if not action.startswith(INVITE):
            return self.respond(None if self.last_turn else await self.ask(), reward=0.0)
        named = action.removeprefix(INVITE).rstrip(".").split(", ")
        topics = [TOPIC_OF.get(value) for value in named]
        met = [value in named and topics.count(topic) == 1 for topic, value in wishes_of(self.task).items()]
        return self.respond(reward=sum(met) / len(met), terminated=True)


def play(skill, seen):
    """Ask four questions that matter (careful), any four (clueless) or any two (hasty), then invite."""
    asked = [message.content for message in seen.messages if message.role == "assistant"]
    told = [message.content for message in seen.messages if message.content in TOPIC_OF]
    if len(asked) >= (2 if skill == "hasty" else 4):
        return f"{INVITE}{', '.join(told)}."
    topics = next(topics for kind, topics in MATTERS.items() if kind in seen.messages[0].content)
    questions = [TOPICS[topic][0] for topic in (topics if skill == "careful" else TOPICS)]
    left = [question for question in questions if question not in asked]
    return Random(f"{seen.seed} {seen.turn}").choice(left)


class Meeting(World):
    name, max_turns, agents = "meeting", 6, {"careful": {}, "clueless": {}, "hasty": {}}
    system_prompt = (
        f"Arrange the meeting. Ask one question a turn, then write '{INVITE}' and what you learned."
    )
    tasks = TaskLists("meetings:train", "meetings:test")
    user, scores = Answers(by="human", scripted=Colleague), Scores(lowest=0.0, highest=1.0)

    def rows(self, source, where, *, limit, seed):
        if where not in ("train", "test"):
            raise no_such("split of meetings", where, ("train", "test"))
        rng = Random(f"meetings {where}")
        for number in range(200):
            kind = rng.choice(list(MATTERS))
            wishes = {topic: rng.choice(TOPICS[topic][1]) for topic in MATTERS[kind]}
            yield {
                "task_id": f"meeting/{where}/{number}",
                "problem_description": f"Arrange a {kind} with my colleague.",
                "hidden_information": "\n".join(f"{topic}: {value}" for topic, value in wishes.items()),
                "ground_truth": f"{INVITE}{', '.join(wishes.values())}.",
            }

    def make_env(self, options, user):
        return MeetingEnv(self.turns(options), user)

    async def make_agent(self, wanted):
        return TeacherPolicy(lambda seen: play(wanted.name, seen))


WORLD = Meeting()
