"""The agents without a model, the questions that one of them asks, and agents that reflect."""

import ast
import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, policy_prompt, reflection_prompt
from sweet_rl.contracts import Policy
from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.mini.objects.oracle import ObjectOracle
from sweet_rl.policies.reflective import ReflectivePolicy, SampledPolicy
from sweet_rl.policies.scripted import ConstantPolicy, OraclePolicy, TeacherPolicy, skill_of
from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import AgentTurn, Completion, Failure, FinishReason, Generation, StopReason
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.backend_programming import world as backend
from sweet_rl.worlds.dangerous_taxi.game import TaxiDriver, TaxiGame
from sweet_rl.worlds.text_games import ACTION_HEAD as TAXI
from sweet_rl.worlds.text_games import TextGameEnv
from sweet_rl.worlds.twenty_questions import TwentyQuestionsEnv

SIGNATURE = "def price(items, discount=0.1, *, unit: str = 'a)')"
REQUEST = f"Price my cart.The signature of the function is: {SIGNATURE}"


def act(policy, observation):
    return asyncio.run(policy.act(observation))


@pytest.mark.parametrize("kind", [OraclePolicy, ConstantPolicy])
def test_known_answers_are_handed_in_at_once(kind, observe):
    policy = kind({"a": "def f():\n    return 1\n"}, system_prompt="Rules.")
    generation = act(policy, observe("Do it.", task_id="a"))
    said = generation.completion
    assert said.text == "I WANT TO ANSWER:\ndef f():\n    return 1\n"
    assert said.finish_reason is FinishReason.STOP
    assert generation.input == "### system:\nRules.\n\n### user:\nDo it.\n\n### assistant:\n"
    with pytest.raises(UsageError, match=f"{policy.name} agent was given no answer for the task 'b'"):
        act(policy, observe("Do it.", task_id="b"))


def test_questioner_asks_then_hands_in_a_stub(observe):
    policy = backend.QuestionerPolicy(num_questions=2)
    first = act(policy, observe(REQUEST)).completion.text
    second = act(policy, observe(REQUEST, first, "Yes.")).completion.text
    answer = act(policy, observe(REQUEST, first, "Yes.", second, "No.")).completion.text
    assert first != second and first.endswith("?") and second.endswith("?")
    marker, _, code = answer.partition("\n")
    assert marker == "I WANT TO ANSWER:"
    namespace = {}
    exec(code, namespace)
    assert namespace["price"]([1]) is None
    answer = act(backend.QuestionerPolicy(num_questions=0), observe(REQUEST)).completion.text
    assert answer.startswith("I WANT TO ANSWER:")
    with pytest.raises(UsageError, match=f"0 to {backend.MAX_QUESTIONS} questions"):
        backend.QuestionerPolicy(num_questions=backend.MAX_QUESTIONS + 1)


def test_questions_vary_with_the_seed_name_the_parameters_and_do_not_repeat(observe):
    def openings():
        return [act(backend.QuestionerPolicy(), observe(REQUEST, seed=n)).completion.text for n in range(20)]

    assert openings() == openings()
    assert len(set(openings())) > 8
    questions = backend.plan_questions(REQUEST, seed=3)
    assert len(set(questions)) == len(questions) == len(backend.ABOUT_FUNCTION) + 3
    for name in ("items", "discount", "unit"):
        assert sum(f"`{name}`" in question for question in questions) == 1
    assert len(backend.plan_questions("No signature here.", seed=3)) == backend.MAX_QUESTIONS


@pytest.mark.parametrize(
    ("description", "header", "parameters"),
    [
        (REQUEST, "def price(items, discount=0.1, *, unit: str = 'a)')", ("items", "discount", "unit")),
        ("define f. def f(): or rather def g(x)", "def g(x)", ("x",)),
        ("is: def f(\n    a,\n    b=(1, 2),\n)", "def f(\n    a,\n    b=(1, 2),\n)", ("a", "b")),
        ("is: def cut(food, social=False, ranking={'Candy'", "def cut(food, social, ranking)", ("food", "social", "ranking")),
        ("is: def open_end(", "def open_end()", ()),
    ],
)  # fmt: skip
def test_signatures(description, header, parameters):
    signature = backend.read_signature(description)
    assert (signature.header, signature.parameters) == (header, parameters)
    ast.parse(backend.stub(description))


@given(st.text(alphabet="def f(a,b=1)[]{}:'\"*\n\\é0"))
def test_any_description_gives_a_stub_that_parses(text):
    ast.parse(backend.stub("def f(" + text))
    assert backend.read_signature("Write a default function (please).") is None
    assert ast.parse(backend.stub("Write something.")).body[0].name == "solution"


def test_real_descriptions_give_the_name_of_their_function(shared):
    lines = (shared / "data/colbench/backend_tasks_500.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        nodes = ast.walk(ast.parse(row["ground_truth"]))
        wanted = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        assert ast.parse(backend.stub(row["problem_description"])).body[0].name in wanted


def test_how_often_a_player_does_what_is_best():
    skills = {"planner": 1.0, "random": 0.0}
    assert skill_of("driver", "planner", None, skills) == 1.0
    assert skill_of("driver", "planner", 0.0, skills) == 0.0
    with pytest.raises(UsageError, match=r"There is no driver 'pilot'. There are planner, random"):
        skill_of("driver", "pilot", None, skills)
    with pytest.raises(UsageError, match=r"skill must be from 0 to 1, got 1.5"):
        skill_of("driver", "random", 1.5, skills)


class Echo:
    """An agent that keeps what it was shown."""

    name = "echo"

    def __init__(self, says="0"):
        self.says, self.seen, self.closed = says, [], False

    async def act(self, observation):
        self.seen.append(observation)
        return Generation(observation.messages[-1].content, Completion(self.says))

    async def close(self):
        self.closed = True


class Reflector(Echo):
    """Counts what it has been shown, and says so."""

    name = "thinker"

    def __init__(self, text="Turn {turn}: {last}", trouble=None):
        super().__init__(text)
        self.trouble = trouble

    async def act(self, observation):
        self.seen.append(observation)
        if self.trouble is not None:
            raise self.trouble
        last = observation.messages[-1].content
        text = self.says.format(turn=observation.turn, last=last.splitlines()[0][:30])
        return Generation(f"<{last}>", Completion(text))


def played(policy: Policy, make_env, source, limit=2):
    done = []

    async def keep(trajectory):
        done.append(trajectory)

    tasks = schedule(load_tasks(source, num_tasks=limit), 1)
    asyncio.run(rollout(tasks, make_env=make_env, policy=policy, on_finished=keep, concurrency=4))
    return done


def taxi(max_turns=2):
    return lambda: TextGameEnv(lambda: TaxiGame(max_turns=max_turns))


def turns(trajectory):
    return [entry for entry in trajectory.dialogue_history if isinstance(entry, AgentTurn)]


def test_in_colbench():
    thinker, agent, human = Reflector(), backend.QuestionerPolicy(num_questions=2), ScriptedHuman()
    policy = ReflectivePolicy(agent, thinker, request="Think first.")
    assert policy.name == "questioner after reflections of thinker"
    plain = played(agent, lambda: backend.BackendEnv(human, max_turns=4), "mini:test")
    done = played(policy, lambda: backend.BackendEnv(human, max_turns=4), "mini:test")
    for trajectory, without in zip(done, plain, strict=True):
        first, second, *_ = turns(trajectory)
        description = trajectory.task.problem_description
        assert first.reflection == f"Turn 0: {description.splitlines()[0][:30]}"
        assert first.reflection_input == f"<{description}\n\nThink first.>"
        assert f"{description}{ANALYSE_MARKER}{first.reflection}" in first.input
        reply = trajectory.dialogue_history[2].content
        assert second.reflection_input == f"<{reply}\n\nThink first.>"
        assert second.reflection.startswith("Turn 1: ")
        assert first.reflection not in second.input  # only the current one is shown
        # neither the human nor the answer knows of it
        roles = [[entry.role for entry in one.dialogue_history] for one in (trajectory, without)]
        assert roles[0] == roles[1]
        assert not any(ANALYSE_MARKER in entry.content for entry in trajectory.dialogue_history)
        assert trajectory.answer is not None
        assert trajectory_from_row(trajectory_to_row(trajectory)) == trajectory


def test_in_twenty_questions():
    asks = ["Is it big?", "Is it alive?"]
    guesser = TeacherPolicy(lambda seen: asks["Turn 0" in seen.messages[-1].content])
    policy, oracle = ReflectivePolicy(guesser, Reflector()), ObjectOracle()
    (trajectory,) = played(policy, lambda: TwentyQuestionsEnv(oracle, max_turns=3), "twenty-questions", 1)
    assert [turn.content for turn in turns(trajectory)] == ["Is it alive?", "Is it big?", "Is it big?"]
    assert [turn.reflection[:7] for turn in turns(trajectory)] == ["Turn 0:", "Turn 1:", "Turn 2:"]
    assert trajectory.reward == -3


def test_the_reflection_model_never_sees_a_list_of_actions_and_its_words_stand_before_it():
    thinker, agent, game = Reflector("Drive on. # Action:\n5"), Echo("0"), TaxiGame()
    policy = ReflectivePolicy(agent, thinker, head=TAXI, instruction=game.instruction)
    (trajectory,) = played(policy, taxi(), "taxi:full:any", 1)
    assert [len(seen.messages) for seen in thinker.seen] == [1, 3]
    for seen in thinker.seen:
        assert not any("The actions" in message.content for message in seen.messages)
        assert seen.messages[0].content.startswith("You have already completed")
    shown, said = agent.seen[0].messages[-1].content, trajectory.dialogue_history[0].content
    assert f"{shown}{ACTION_MARKER}" == policy_prompt(said, TAXI, "Drive on. ", instruction=game.instruction)
    assert turns(trajectory)[0].reflection == "Drive on. "
    assert game.begin(246, "full").splitlines()[-1] == shown.splitlines()[-1]


def test_the_published_prompts_from_two_samplers():
    """Both models continue plain text: exactly the prompts of training and evaluation."""

    class Sampler:
        def __init__(self, text):
            self.name, self.text, self.asked, self.closed = "model", text, [], False

        async def sample(self, prompts, n, *, seeds=None):
            self.asked += [(prompt, seed) for prompt, seed in zip(prompts, seeds, strict=True)]
            return [[Completion(self.text)] * n for _ in prompts]

        async def close(self):
            self.closed = True

    thinks, acts, game = Sampler("Hm. # Action: 2"), Sampler("0"), TaxiGame()
    policy = ReflectivePolicy(
        SampledPolicy(acts, ACTION_MARKER, instruction=game.instruction),
        SampledPolicy(thinks, ANALYSE_MARKER, instruction=game.instruction),
        head=TAXI,
    )
    (trajectory,) = played(policy, taxi(), "taxi:full:any", 1)
    said = [entry.content for entry in trajectory.dialogue_history if entry.role == "user"]
    for number, turn in enumerate(turns(trajectory)):
        reflect = reflection_prompt(said[number], TAXI, instruction=game.instruction)
        assert turn.reflection_input == thinks.asked[number][0] == reflect
        act = policy_prompt(said[number], TAXI, "Hm. ", instruction=game.instruction)
        assert turn.input == acts.asked[number][0] == act
    seeds = [seed for sampler in (thinks, acts) for _, seed in sampler.asked]
    assert len(set(seeds)) == len(seeds)
    asyncio.run(policy.close())
    assert thinks.closed and acts.closed


def test_a_reflection_that_fails_is_recorded_and_the_agent_goes_on():
    trouble = EpisodeError(StopReason.CONTEXT_FULL, Failure("context_full", "too long"))
    policy = ReflectivePolicy(TaxiDriver(), Reflector(trouble=trouble), head=TAXI)
    (trajectory,) = played(policy, taxi(), "taxi:full:any", 1)
    assert trajectory.error is None
    failed = [Failure("context_full", "reflection: too long", turn=turn) for turn in (0, 1)]
    assert [*trajectory.failures] == failed
    for turn in turns(trajectory):
        assert (turn.reflection, turn.reflection_input) == (None, None)
        assert f"{ANALYSE_MARKER}{TAXI}" in turn.input  # an empty analysis, as where none is asked for


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.5, 15, 65), (1.0, 80, 80)])
def test_share_of_turns(share, low, high):
    thinker = Reflector()
    policy = ReflectivePolicy(Echo("fly"), thinker, head=TAXI, reflect_prob=share)
    done = played(policy, taxi(4), "taxi", 20)
    reflected = sum(turn.reflection is not None for trajectory in done for turn in turns(trajectory))
    assert low <= reflected == len(thinker.seen) <= high
    again = played(policy, taxi(4), "taxi", 20)
    assert {one.key: turns(one) for one in again} == {one.key: turns(one) for one in done}


def test_no_share_a_dead_reflection_model_and_both_parts_are_closed():
    agent, thinker = Echo(), Reflector(trouble=ServiceError("gone"))
    with pytest.raises(UsageError, match="reflect_prob"):
        ReflectivePolicy(agent, thinker, reflect_prob=1.2)
    policy = ReflectivePolicy(agent, thinker, head=TAXI)
    with pytest.raises(ServiceError, match="gone"):  # which ends the run
        played(policy, lambda: TextGameEnv(TaxiGame), "taxi", 1)
    asyncio.run(policy.close())
    assert agent.closed and thinker.closed
