"""Turn boundaries in token ids, read off the chat templates of four families of models."""

import pytest

from sweet_rl.chat import TokenizerChat, TurnFormat
from sweet_rl.errors import UsageError
from sweet_rl.types import Message
from tests.tiny_models import CHAT_TEMPLATE, tiny_tokenizer

TEMPLATES = {
    "llama-3": CHAT_TEMPLATE,
    "qwen": (
        "{% for m in messages %}{{ '<|header|>' + m['role'] + '\n' + m['content'] + '<|end_turn|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|header|>assistant\n' }}{% endif %}"
    ),
    "mistral": (  # no system role, no header tokens of its own
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
        "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}"
        "{% else %}{{ raise_exception('no system') }}{% endif %}{% endfor %}"
    ),
    "gpt-2": (
        "{% for m in messages %}{{ '### ' + m['role'] + ':\n' + m['content'] }}"
        "{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '### assistant:\n' }}{% endif %}"
    ),
}
HEADERS = {
    "llama-3": "<|header|>assistant<|end_header|>\n\n",
    "qwen": "<|header|>assistant\n",
    "mistral": "[/INST]",
    "gpt-2": "### assistant:\n",
}
SAID = ["What should it return?", "def f(x):\n    return x", "42"]


@pytest.fixture(params=TEMPLATES, scope="module")
def family(request):
    tokenizer = tiny_tokenizer(TEMPLATES[request.param])
    return request.param, tokenizer, TurnFormat.of(tokenizer)


def encoded(tokenizer, *, closed):
    """A dialogue of three agent turns; the last one as a model leaves it: with its end token, or cut."""
    chat = TokenizerChat(tokenizer)
    messages = [Message("user", "5 or (6)?")]
    for text in SAID[:-1]:
        messages += [Message("assistant", text), Message("user", "Hello.\n")]
    end = [tokenizer.eos_token_id] if closed else []
    return chat.encode(chat.render(messages) + SAID[-1]) + end


def texts(tokenizer, spans, ids):
    return [tokenizer.decode(ids[start:end]) for start, end in spans]


def test_header_and_end(family):
    name, tokenizer, form = family
    assert tokenizer.decode(form.header_ids) == HEADERS[name]
    assert form.end_id == tokenizer.eos_token_id


def test_every_turn_with_its_end_token_and_nothing_else(family):
    _, tokenizer, form = family
    ids = encoded(tokenizer, closed=True)
    found = [text.lstrip() for text in texts(tokenizer, form.spans(ids), ids)]
    assert found == [f"{text}<|end_turn|>" for text in SAID]


def test_a_cut_turn_runs_to_the_end(family):
    _, tokenizer, form = family
    ids = encoded(tokenizer, closed=False)
    assert texts(tokenizer, form.spans(ids), ids)[-1].lstrip() == SAID[-1]
    assert form.spans(ids)[-1].end == len(ids)


def test_an_open_prompt_has_no_turn_yet(family):
    _, tokenizer, form = family
    chat = TokenizerChat(tokenizer)
    assert form.spans(chat.encode(chat.render([Message("user", "Hi.")]))) == []


def test_a_header_inside_a_turn_opens_no_second_one(family):
    form = family[2]
    inside = [*form.header_ids, 5, *form.header_ids, 6, form.end_id]
    assert len(form.spans(inside)) == 1


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (TEMPLATES["qwen"].replace("<|end_turn|>", ""), "closes an assistant turn with no token of its own"),
        (
            TEMPLATES["gpt-2"]
            .replace("### ' + m['role'] + ':\n' + ", "' + ")
            .replace("### assistant:\n", ""),
            "opens an assistant turn with no tokens of its own",
        ),
    ],
)
def test_a_template_that_does_not_tell_turns_apart_is_refused(template, message):
    with pytest.raises(UsageError, match=message):
        TurnFormat.of(tiny_tokenizer(template))
