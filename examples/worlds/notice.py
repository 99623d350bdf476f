"""Write a notice for a client who comments on drafts, which reveals what it has to say; the last draft is graded."""

from random import Random

from sweet_rl import BaseEnv, User, UserReply, World
from sweet_rl.errors import no_such
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.worlds import Answers, Scores, TaskLists

FACTS = {
    "what": ["concert", "flea market", "lecture", "picnic"],
    "day": ["Monday", "Wednesday", "Friday", "Sunday"],
    "hour": ["10:00", "14:00", "17:00", "20:00"],
    "place": ["town hall", "old mill", "school yard", "market square"],
}
FINAL, CONTENT = "Final: ", "Fine as it is."


def text_of(facts):
    """A notice with these facts; the others are left open."""
    what, day, hour, place = (facts.get(name, "...") for name in FACTS)
    return f"Come to the {what} on {day} at {hour}, {place}!"


def facts_in(text):
    """The facts that a text names; one that is named twice counts as wrong."""
    named = {name: [value for value in values if value in text] for name, values in FACTS.items()}
    return {name: values[0] if len(values) == 1 else "?" for name, values in named.items() if values}


def grade(text, wanted):
    """The share of the facts that a text has right, less a quarter for each that it has wrong; not below 0."""
    signs = [1 if value == wanted[name] else -1 for name, value in facts_in(text).items()]
    return max(0.0, sum(signs) / len(wanted))


class Client(User):
    """Names the first fact of a draft that is missing or wrong."""

    name = "client"

    async def reply(self, context):
        wanted, found = facts_in(context.hidden_information), facts_in(context.messages[-1].content)
        amiss = (f"The {name}: {value}." for name, value in wanted.items() if found.get(name) != value)
        return UserReply(next(amiss, CONTENT))


class NoticeEnv(BaseEnv):
    async def turn(self, action):
        if action.startswith(FINAL):
            return self.respond(reward=grade(action, facts_in(self.task.ground_truth)), terminated=True)
        return self.respond(None if self.last_turn else await self.ask(), reward=0.0)


def play(skill, seen):
    """Draft until the client is content (patient), draft twice (hurried), or invent what is missing (inventive)."""
    known = facts_in(" ".join(message.content for message in seen.messages if message.role == "user"))
    done = seen.messages[-1].content == CONTENT or len(known) == len(FACTS)
    done |= skill != "patient" and seen.turn == 2
    if skill == "inventive":
        rng = Random(f"{seen.seed} {seen.turn}")
        known |= {name: rng.choice(values) for name, values in FACTS.items() if name not in known}
    return f"{FINAL if done else ''}{text_of(known)}"


class Notice(World):
    name, max_turns, agents = "notice", 6, {"patient": {}, "hurried": {}, "inventive": {}}
    system_prompt = f"Write drafts; the client says what is amiss. Begin the last one with '{FINAL}'."
    tasks = TaskLists("notices:train", "notices:test")
    user, scores = Answers(by="human", scripted=Client), Scores(lowest=0.0, highest=1.0)

    def rows(self, source, where, *, limit, seed):
        if where not in ("train", "test"):
            raise no_such("split of notices", where, ("train", "test"))
        rng = Random(f"notices {where}")
        for number in range(200):
            facts = {name: rng.choice(values) for name, values in FACTS.items()}
            request = f"Write a notice about our {facts['what']}."
            row = {"task_id": f"notice/{where}/{number}", "problem_description": request}
            yield row | {"ground_truth": text_of(facts)}

    def make_env(self, options, user):
        return NoticeEnv(self.turns(options), user)

    async def make_agent(self, wanted):
        return TeacherPolicy(lambda seen: play(wanted.name, seen))


WORLD = Notice()
