"""A chat template that runs away is stopped, and named; an ordinary one does not notice that it is watched."""

import threading
import time

import pytest

from sweet_rl.chat import rendering
from sweet_rl.chat.formats import EMBEDDED, TokenizerChat, load_tokenizer, model_path
from sweet_rl.errors import UsageError
from sweet_rl.types import Message

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
    return load_tokenizer(model_path(EMBEDDED))


@pytest.mark.parametrize("name", TEMPLATES)
def test_it_is_stopped(tokenizer, name, monkeypatch):
    monkeypatch.setattr(rendering, "SECONDS", 0.5)
    tokenizer.chat_template = TEMPLATES[name] + SAID
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"The chat template of '.*agent' runs away: .*chat_template\.jinja"):
        TokenizerChat(tokenizer)
    assert time.monotonic() - started < 20


def test_memory_is_bounded(tokenizer, monkeypatch):
    monkeypatch.setattr(rendering, "MEMORY", 2**26)
    kept = "{% set kept = namespace(all=[]) %}{% for i in range(99999) %}{% for j in range(99999) %}"
    tokenizer.chat_template = kept + "{% set kept.all = kept.all + ['a' * 10000] %}{% endfor %}{% endfor %}"
    with pytest.raises(UsageError, match="runs away"):
        TokenizerChat(tokenizer)


def test_it_may_run_in_a_thread_and_another_goes_on(tokenizer, monkeypatch):
    monkeypatch.setattr(rendering, "SECONDS", 0.5)
    good = TokenizerChat(tokenizer)
    expected, errors = good.render([Message("user", "Hi.")]), []
    other = load_tokenizer(model_path(EMBEDDED))
    other.chat_template = TEMPLATES["a range of a range"] + SAID

    def work():
        try:
            TokenizerChat(other)
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        assert good.render([Message("user", "Hi.")]) == expected
    assert len(errors) == 1
    assert not rendering._running


def test_what_templates_reckon_with_is_as_it_was(tokenizer):
    tokenizer.chat_template = (
        "{{ 3 * 4 }} {{ 2**10 }} {{ 'ab' * 3 }} {{ ([1] * 2)|length }} {{ 2 * 1.5 }}" + SAID
    )
    assert TokenizerChat(tokenizer).render([Message("user", "Hi.")]) == "12 1024 ababab 2 3.0Hi."
