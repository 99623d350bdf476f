"""Prompts, held to the goldens; templates that refuse or drop a system message; transcripts and Reflect-RL's texts."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from sweet_rl.chat import (
    EMBEDDED,
    InstructedChat,
    PlainChat,
    TokenizerChat,
    formats,
    load_tokenizer,
    with_system,
)
from sweet_rl.chat import reflect_format as texts
from sweet_rl.chat.formats import LastObservation, WholeTranscript
from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, CHOICES, policy_prompt, split_prompt
from sweet_rl.errors import UsageError
from sweet_rl.types import Message
from sweet_rl.worlds import world_of
from tests.tiny_models import BEGIN, tiny_tokenizer

SYSTEM, USER, REPLY = Message("system", "Rules."), Message("user", "Hi."), Message("assistant", "Yes?")


def test_chat_template_golden(shared):
    folder = shared / "goldens/sweet_rl/c_environment"
    golden = json.loads((folder / "agent_prompt.json").read_text())
    chat = TokenizerChat.from_pretrained((folder / golden["tokenizer"]).resolve())
    histories = [history for history in golden["histories"] if history is not None]
    expected = [prompt for prompt in golden["expected"]["formatted_prompts"] if prompt is not None]
    said = [[Message(m["role"], m["content"]) for m in history] for history in histories]
    assert [chat.render(with_system(golden["agent_prompt"], messages)) for messages in said] == expected


def test_loop_golden_prompts(shared):
    """Every prompt of the published loop, whose agent prompt holds a literal placeholder."""
    folder = shared / "goldens/sweet_rl/c_environment"
    agent_prompt = (folder / "loop_agent_prompt.txt").read_text()
    chat = TokenizerChat.from_pretrained(shared / "goldens/sweet_rl/e_dpo/tokenizer")
    seen = 0
    for line in (folder / "loop_expected.jsonl").read_text().splitlines():
        history = json.loads(line)["dialogue_history"]
        for i, entry in enumerate(history):
            if entry["role"] == "assistant":
                visible = [Message(m["role"], m["content"]) for m in history[:i]]
                assert chat.render(with_system(agent_prompt, visible)) == entry["input"]
                seen += 1
    assert seen > 6


def test_encode_adds_no_begin_token():
    tokenizer = tiny_tokenizer()
    chat = TokenizerChat(tokenizer)
    prompt = chat.render([USER])
    assert prompt.startswith(BEGIN) and chat.writes_begin_token(prompt)
    assert not chat.writes_begin_token(prompt.removeprefix(BEGIN))
    assert chat.encode(prompt).count(tokenizer.bos_token_id) == 1
    assert tokenizer(prompt)["input_ids"].count(tokenizer.bos_token_id) == 2  # what is to be avoided


@pytest.mark.parametrize(
    "template",
    [
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
        "",  # drops the system message without a word
    ],
)
def test_system_text_is_folded_where_the_template_has_no_place_for_it(template):
    body = "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}|{{ m.content }}]{% endif %}{% endfor %}"
    chat = TokenizerChat(tiny_tokenizer(template + body))
    assert chat.folds_system
    assert chat.render([SYSTEM, USER, REPLY]) == "[user|Rules.\n\nHi.][assistant|Yes?]"
    assert chat.render([SYSTEM]) == "[user|Rules.]"
    assert chat.render([USER, REPLY]) == "[user|Hi.][assistant|Yes?]"


def test_a_template_that_refuses_the_dialogue_is_named():
    many = "{% if messages | length > 2 %}{{ raise_exception('too many') }}{% endif %}"
    template = many + "{{ messages[0].content }}"
    with pytest.raises(UsageError, match="roles user, assistant, user: too many"):
        TokenizerChat(tiny_tokenizer(template)).render([USER, REPLY, USER])


def test_missing_template_and_missing_tokenizer(tmp_path):
    with pytest.raises(UsageError, match="no chat template"):
        TokenizerChat(tiny_tokenizer(chat_template=None))
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        TokenizerChat.from_pretrained(tmp_path)


def test_a_name_that_is_no_folder_is_told_before_it_is_looked_for_once(tmp_path, caplog):
    """Without a network the search takes a minute or two."""
    no_name = "and a model of the hub is named like"
    for name in ("runs/critik", "runs/critik", tmp_path, "./runs/critic", "runs/a/critic", "/nowhere"):
        searched = name in ("runs/critik", tmp_path)
        with pytest.raises(UsageError, match="No tokenizer could be loaded from" if searched else no_name):
            load_tokenizer(name)
    said = "runs/critik is no folder here: looking for it in the local cache and on the hub."
    assert caplog.messages == [said]


def test_of_a_long_dialogue_the_oldest_exchanges_are_left_out():
    """Never what it is about, nor the instructions: the whole is cut to exchanges that fit."""
    chat = TokenizerChat.from_pretrained(EMBEDDED)
    said = [Message("user", "I need a function.")]
    for number in range(9):
        said += [Message("assistant", f"Question {number}?"), Message("user", f"Answer {number}.")]
    written = InstructedChat(chat, "Ask.", 200)
    text = written.render(said)
    assert len(chat.encode(text)) <= 200 < len(chat.encode(InstructedChat(chat, "Ask.", 10_000).render(said)))
    left_out = next(number for number in range(9) if f"Question {number}?" in text)
    assert 0 < left_out < 8
    assert text == chat.render([Message("system", "Ask."), said[0], *said[1 + 2 * left_out :]])
    assert written.render(said[:3]) == chat.render([Message("system", "Ask."), *said[:3]])


def test_a_dialogue_whose_ends_alone_are_too_long_is_told_of_once(caplog):
    chat = TokenizerChat.from_pretrained(EMBEDDED)
    written, long = InstructedChat(chat, "Ask.", 100), [Message("user", "I need a function. " * 40)]
    written.render([USER])
    assert not caplog.messages
    assert written.render(long) == written.render(long) == chat.render([Message("system", "Ask."), *long])
    (said,) = caplog.messages
    assert "the last 100: not the instructions" in said
    with pytest.raises(UsageError, match=r"max_context=20 has no room for a dialogue: .* begins with \d\d"):
        InstructedChat(chat, "Ask, and ask, and ask again. " * 9, 20)


def test_transcripts():
    written = "### system:\nRules.\n\n### user:\nHi.\n\n### assistant:\n"
    assert PlainChat().render([SYSTEM, USER]) == written
    assert with_system("", [USER]) == [USER]
    messages = [SYSTEM, Message("user", "A hall."), Message("assistant", "north"), Message("user", "A cave.")]
    assert (LastObservation().render(messages), LastObservation().render([])) == ("A cave.", "")
    assert (WholeTranscript().render(messages[:3]), WholeTranscript().render([])) == ("A hall.\nnorth\n", "")


SAID = "{{ messages[0]['content'] }}"
TEMPLATES = {
    "a long range": "{% for i in range(10**9) %}x{% endfor %}",
    "a range of a range": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "messages by messages": "{% for i in range(9999) %}{% for a in messages %}{% for j in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "a text times a number": "{{ 'a' * 10**9 }}",
    "by and by": "{% set n = 1000 %}{{ 'a' * n * n * n * n }}",
    "a list times a number": "{{ ([0] * 1000000000)|length }}",
    "a power": "{{ 10**10**9 }}",
    "a macro of itself": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "a tree of macros": "{% macro f(x) %}{% if x > 0 %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a long text": "{% for i in range(9999) %}{% for j in range(999) %}0123456789{% endfor %}{% endfor %}",
    "many brackets": "{{ " + "(" * 10_000 + ")" * 10_000 + " }}",
    "many blocks": "{% if a %}" * 3_000 + "{% endif %}" * 3_000,
}


@pytest.fixture
def tokenizer():
    return load_tokenizer(EMBEDDED)


@pytest.mark.parametrize("name", TEMPLATES)
def test_it_is_stopped(tokenizer, name, monkeypatch):
    monkeypatch.setattr(formats, "SECONDS", 0.5)
    tokenizer.chat_template = TEMPLATES[name] + SAID
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"The chat template of '.*agent' runs away: .*chat_template\.jinja"):
        TokenizerChat(tokenizer)
    assert time.monotonic() - started < 20


def test_one_thread_stops_those_that_run_away_side_by_side_and_waits_for_many_in_turn(tokenizer, monkeypatch):
    chat, started, start = TokenizerChat(tokenizer), [], Thread.start
    monkeypatch.setattr(Thread, "start", lambda self: (started.append(self), start(self)))
    began = time.monotonic()
    for _ in range(300):
        chat.render([USER])
    assert len(started) <= 2 + (time.monotonic() - began) / (formats.SECONDS / 20)
    monkeypatch.setattr(formats, "SECONDS", 0.5)
    tokenizer.chat_template = TEMPLATES["a range of a range"]
    with ThreadPoolExecutor(2) as pool:
        ways = [pool.submit(chat.render, [USER]) for _ in range(2)]
        assert all("takes more than 0.5 s" in str(one.exception(20)) for one in ways)
    assert not formats._WATCHDOG._until


def test_what_templates_reckon_with_is_as_it_was(tokenizer):
    sums = "{{ 3 * 4 }} {{ 2**10 }} {{ 'ab' * 3 }} {{ ([1] * 2)|length }} {{ 2 * 1.5 }}"
    tokenizer.chat_template = sums + SAID
    assert TokenizerChat(tokenizer).render([Message("user", "Hi.")]) == "12 1024 ababab 2 3.0Hi."


TAXI = world_of("dangerous_taxi").learning.head
EXPLORE = world_of("auto_explore").learning.head


@pytest.fixture(scope="module")
def recorded(shared):
    return json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())


def test_labels():
    assert (len(CHOICES), len(set(CHOICES))) == (252, 252)
    assert (CHOICES[0], CHOICES[199], CHOICES[200], CHOICES[-1]) == ("0", "199", "a", "Z")


def test_explore_training_texts(recorded):
    """From the recorded plain text: prompt and label; the two others follow from it."""
    golden = recorded["gen_sft_auto_explore"]
    files = ("sft.jsonl", "sft_reflection.jsonl", "sft_policy.jsonl")
    for rows in zip(*(golden[file] for file in files), strict=True):
        plain, reflected, policy = (row["text"] for row in rows)
        text, label = plain.split(ACTION_MARKER)
        reflection = reflected.split(ANALYSE_MARKER)[1]
        assert texts.sft_texts(text, EXPLORE, reflection, label) == (plain, reflected, policy)


def test_the_recorded_prompt_of_a_game(shared):
    run = json.loads((shared / "goldens/reflect_rl/rl_loop_and_plots.json").read_text())
    prompt = run["first_detail_prompt"]
    text = prompt.replace("<GAME_INSTRUCTION>\n", "").replace(f"{ANALYSE_MARKER}reflection text ", "")
    text = text.removesuffix(ACTION_MARKER)
    assert policy_prompt(text, TAXI, "reflection text ", instruction="<GAME_INSTRUCTION>") == prompt


def test_prompts_by_hand():
    text = "You see this.\nThe actions you can take now is:\nAction 0: stay\n"
    assert split_prompt(text, TAXI) == ("You see this.", text.removeprefix("You see this."))
    assert texts.reflection_prompt(text, TAXI) == "You see this. # Analyze:\n"
    assert policy_prompt(text, TAXI) == f"{text} # Action:\n"
    assert policy_prompt(text, TAXI, "", instruction="Hi") == (
        "Hi\nYou see this. # Analyze:\n\nThe actions you can take now is:\nAction 0: stay\n # Action:\n"
    )
    assert policy_prompt("All of it.", None, "Hm.") == "All of it. # Analyze:\nHm. # Action:\n"

    text = f"A file that says{EXPLORE}\n0. nothing\n{EXPLORE}\n0. cd docs\n"  # the list is the last one
    assert split_prompt(text, EXPLORE).after == f"{EXPLORE}\n0. cd docs\n"


def test_a_reflection_ends_where_it_acts():
    assert texts.cut_reflection("Go on. # Action:\n3 # Action: 4") == "Go on. "
    assert texts.cut_reflection("Go on.") == "Go on."


@pytest.mark.parametrize(
    ("said", "label"),
    [
        *((said, "1") for said in ("1", " 1 ", "1. id x", "1.", "id x", ".1")),
        ("cat a.b", "0"),
        *((said, None) for said in ("2", "", "id", "1 id x")),
    ],
)
def test_labels_as_agents_write_them(said, label):
    assert texts.resolve_label(said, {"0": "cat a.b", "1": "id x"}) == label
