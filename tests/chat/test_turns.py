"""Turns of an agent by the chat templates of many families, and texts back to messages: exactly, or not at all."""

# ruff: noqa: RUF001 - marks of real templates

import json
from pathlib import Path

import pytest

from sweet_rl.chat import TokenizerChat, TurnTemplate, UnparsableError
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
HEADERS = {"llama-3": "<|header|>assistant<|end_header|>\n\n", "qwen": "<|header|>assistant\n"}
HEADERS |= {"mistral": "[/INST]", "gpt-2": "### assistant:\n"}
THINKING = (  # history without thoughts, a prompt that opens one, thoughts of the last turn: as Qwen3.5 has them
    "{% for m in messages %}<|header|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}<think>\n"
    "{{ m.reasoning_content if m.reasoning_content is defined else '' }}\n</think>\n\n{% endif %}"
    "{{ m.content.split('</think>')[-1] }}<|end_turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant\n<think>\n{% endif %}"
)
SAID = ["What should it return?", "def f(x):\n    return x", "42"]
CHATML = (
    "{% if messages[0].role != 'system' %}<|header|>system\nYou help.<|end_turn|>\n{% endif %}"
    "{% for m in messages %}<|header|>{{ m.role }}\n{{ m.content }}<|end_turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant\n{% endif %}"
)
"""A default system text, and a line break behind the end token, as Qwen has them."""
SYSTEM = Message("system", "Be brief.\n")
ASK, ANSWER = Message("user", "Which\n\none? "), Message("assistant", " The first.\n")
DIALOGUES = [[ASK, ANSWER], [SYSTEM, ASK, ANSWER], [SYSTEM, ASK, ANSWER, Message("user", ""), ANSWER]]


def template_of(text=None, **options):
    return TurnTemplate(TokenizerChat(tiny_tokenizer(text) if text else tiny_tokenizer()), **options)


def dialogue():
    messages = [Message("user", "5 or (6)?")]
    for text in SAID:
        messages += [Message("assistant", text), Message("user", "Hello.\n")]
    return messages[:-1]


@pytest.fixture(params=TEMPLATES, scope="module")
def family(request):
    return request.param, template_of(TEMPLATES[request.param])


def test_header_and_end(family):
    name, template = family
    assert (template.header, template.end) == (HEADERS[name], "<|end_turn|>")
    assert template.writes_alike


def test_messages_become_a_prompt_and_a_completion_for_each_turn(family):
    _, template = family
    messages = dialogue()
    turns = template.turns(messages)
    found = [(turn.text, turn.end, turn.lead) for turn in turns]
    assert found == [(text, "<|end_turn|>", "") for text in SAID]
    assert [turn.prompt for turn in turns] == [template.chat.render(messages[:place]) for place in (1, 3, 5)]
    assert template.turns(messages, first=3) == turns[1:]


def test_a_text_becomes_the_same_turns(family):
    _, template = family
    messages = dialogue()
    whole = template.chat.render(messages[:-1]) + SAID[-1]
    for text, end in ((whole, ""), (whole + "<|end_turn|>\n\n", "<|end_turn|>")):
        turns = template.written("", "hidden: 42. " + text, cut=not end)
        assert [turn.text.lstrip() for turn in turns] == SAID
        assert turns[-1].end == end
        assert turns[-1].prompt.rstrip() == "hidden: 42. " + template.chat.render(messages[:-1]).rstrip()
    prompt = template.chat.render(messages[:-3])
    behind = template.written(prompt, whole.removeprefix(prompt))
    assert [turn.text.lstrip() for turn in behind] == SAID[1:]


def test_an_open_prompt_has_no_turn_yet(family):
    _, template = family
    with pytest.raises(UnparsableError, match="no turn of the assistant"):
        template.written("", template.chat.render([Message("user", "Hi.")]))


def test_a_header_inside_a_turn_opens_no_second_one():
    template = template_of()
    said = f"I write {template.header} here"
    (turn,) = template.written("", template.chat.render([Message("user", "Hi.")]) + said + template.end)
    assert turn.text == said


@pytest.mark.parametrize(
    ("learn", "lead", "text"), [(True, "", "hm\n</think>\n\nFour."), (False, "hm\n</think>\n\n", "Four.")]
)
def test_thoughts_are_learned_or_only_read_and_stand_in_no_later_prompt(learn, lead, text):
    template = template_of(THINKING, learn_thoughts=learn)
    asked = [{"role": "user", "content": "2+2?"}]
    for said in (
        {"role": "assistant", "content": "Four.", "reasoning_content": "hm"},
        {"role": "assistant", "content": "<think>hm</think>Four."},
    ):
        first, last = template.turns([*asked, said, *asked, {"role": "assistant", "content": "Again four."}])
        assert (first.lead, first.text, first.end) == (lead, text, "<|end_turn|>")
        assert first.prompt.endswith("<|header|>assistant\n<think>\n")
        assert "hm" not in last.prompt
        assert (last.lead, last.text) == ("\n</think>\n\n", "Again four.")  # an empty thought is only read
    (raw,) = [template.said(first.prompt, "hm\n</think>\n\nFour.<|end_turn|>")]
    assert (raw.lead, raw.text, raw.end) == (lead, text, "<|end_turn|>")


def test_what_opens_a_thought_is_learned_where_the_model_writes_it():
    opens = "<|header|>assistant\n<think>\n{% endif %}"
    template = template_of(THINKING.replace(opens, "<|header|>assistant\n{% endif %}"))
    said = {"role": "assistant", "content": "Four.", "reasoning_content": "hm"}
    (turn,) = template.turns([{"role": "user", "content": "2+2?"}, said])
    assert (turn.lead, turn.text) == ("", "<think>\nhm\n</think>\n\nFour.")
    assert turn.prompt.endswith("assistant\n")


def test_a_text_whose_history_is_rewritten_becomes_turns_with_their_own_prompts():
    template = template_of(THINKING)
    assert not template.writes_alike
    asked, said = Message("user", "2+2?"), Message("assistant", "Which base?")
    prompt = template.chat.render([asked, said, Message("user", "ten")])
    first, last = template.written("", f"hidden: 4. {prompt}hm</think>Four.<|end_turn|>")
    assert first.prompt == f"hidden: 4. {template.chat.render([asked])}"
    assert (first.text, last.prompt, last.text) == ("Which base?", f"hidden: 4. {prompt}", "hm</think>Four.")
    with pytest.raises(UnparsableError):
        template.written("", prompt.replace("<|header|>user", "<|header|>") + "Four.")


def test_a_template_without_an_end_of_turns():
    """What stands behind a turn opens the user's message, as GLM's templates have it: it ends nothing."""
    glm = (
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}"
        "{% if messages[-1].role == 'assistant' %}<|user|>\n{% endif %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    (turn,) = template_of(glm).turns([Message("user", "2+2?"), Message("assistant", "Four.")])
    assert (turn.text, turn.end) == ("Four.", "")


def test_of_two_marks_behind_the_last_turn_the_one_that_ends_every_turn_is_its_end():
    phi = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% else %}{{ eos_token }}{% endif %}"
    )
    assert template_of(phi).end == "<|end|>"


def test_a_text_that_begins_in_another_way_loses_no_turn():
    """Each user message begins with the begin token, as in Llama 2; the first of these lacks it."""
    each = "{% for m in messages %}"
    llama = THINKING.replace(each, each + "{% if m.role == 'user' %}{{ bos_token }}{% endif %}")
    text = template_of(llama).chat.render(dialogue()[:3]) + "hm</think>Four."
    assert len(template_of(llama).written("", text)) == 2
    with pytest.raises(UnparsableError, match="begins otherwise"):
        template_of(llama).written("", text.removeprefix("<|begin|>"))


@pytest.mark.parametrize("template", [None, CHATML])
@pytest.mark.parametrize("messages", DIALOGUES)
def test_there_and_back(template, messages):
    template = template_of(template)
    text = template.chat.render(messages, open_turn=False)
    assert template.parse(text) == messages
    assert template.parse(text.rstrip()) == messages  # as a policy leaves it: nothing behind the end token
    asked = messages[:-1]
    assert template.parse(template.chat.render(asked), open_turn=True) == asked


@pytest.mark.parametrize(
    ("template", "text", "reason"),
    [
        (None, "In light of it.<|begin|><|header|>user", "it does not begin as that does, with '<|begin|><|header|>user"),
        (None, "<|begin|><|header|>user<|end_header|>\n\na", "it has '' where the template writes '<|end_turn|>'"),
        (
            TEMPLATES["mistral"].replace("+ m['content'] + eos", "+ m['content'] | trim + eos"),
            "<|begin|>[INST] a [/INST] b \n<|end_turn|>",
            "it has ' \\n<|end_turn|>'",
        ),
    ],
)  # fmt: skip
def test_what_the_template_does_not_write_is_refused(template, text, reason):
    with pytest.raises(UnparsableError) as raised:
        template_of(template).parse(text)
    assert reason in str(raised.value)


def test_an_open_prompt_is_no_closed_dialogue():
    template = template_of()
    with pytest.raises(UnparsableError):
        template.parse(template.chat.render([ASK]))
    with pytest.raises(UnparsableError):
        template.parse(template.chat.render([ASK, ANSWER], open_turn=False), open_turn=True)


# -- the templates that ship with TRL -------------------------------------------------------------------------

BY_HAND = {
    "llama3": [
        "<|begin|><|start_header_id|>user<|end_header_id|>\n\nA?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "[b<|eot_id|>]<|start_header_id|>user<|end_header_id|>\n\nC?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "[d<|eot_id|>]"
    ],
    "qwen3": [
        "<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[b<|im_end|>]",
        "<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nC?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n[d<|im_end|>]",
    ],
    "qwen3_8": [
        "<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[b<|im_end|>]\n"
        "<|im_start|>user\nC?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[d<|im_end|>]"
    ],
    "nemotron_3_nano": [
        "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\n<think>\n</think>[b<|im_end|>]",
        "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\n<think></think>b<|im_end|>\n"
        "<|im_start|>user\nC?<|im_end|>\n<|im_start|>assistant\n<think>\n</think>[d<|im_end|>]",
    ],
    "deepseek_r1_distill": [
        "<|begin|><｜User｜>A?<｜Assistant｜><think>\n\n</think>\n\n[b<｜end▁of▁sentence｜>]",
        "<|begin|><｜User｜>A?<｜Assistant｜>b<｜end▁of▁sentence｜><｜User｜>C?<｜Assistant｜><think>\n\n</think>\n\n"
        "[d<｜end▁of▁sentence｜>]",
    ],
    "gemma3": [
        "<|begin|><start_of_turn>user\nA?<end_of_turn>\n<start_of_turn>model\n[b<end_of_turn>]\n<start_of_turn>user\nC?"
        "<end_of_turn>\n<start_of_turn>model\n[d<end_of_turn>]"
    ],
    "gemma4": [
        "<|begin|><|turn>user\nA?<turn|>\n<|turn>model\n[b<turn|>]\n<|turn>user\nC?<turn|>\n<|turn>model\n[d<turn|>]"
    ],
    "cohere2": [
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>A?<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
        "<|START_RESPONSE|>[b<|END_RESPONSE|><|END_OF_TURN_TOKEN|>]<|START_OF_TURN_TOKEN|><|USER_TOKEN|>C?"
        "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>"
        "[d<|END_RESPONSE|><|END_OF_TURN_TOKEN|>]"
    ],
    "phi3": [
        "<|user|>\nA?<|end|>\n<|assistant|>\n[b<|end|>]\n<|user|>\nC?<|end|>\n<|assistant|>\n[d<|end|>]"
    ],
    "llava_next": ["[INST] A? [/INST][b</s>]", "[INST] A? [/INST] b</s> [INST] C? [/INST][d</s>]"],
}
"""What is read, and in brackets what is learned, sequence by sequence, of A? b C? d."""


def trl_templates():
    trl = pytest.importorskip("trl", reason="TRL's chat templates: pip install trl")
    paths = (Path(trl.__file__).parent / "chat_templates").glob("*.jinja")
    return {path.stem: path.read_text() for path in paths}


def trl_tokenizer(name, text, ends):
    tokenizer = tiny_tokenizer(text)
    if end := ends.get(name, {}).get("end"):
        tokenizer.add_special_tokens({"additional_special_tokens": [end]})
    return tokenizer


def learned(tokenizer, rows):
    from sweet_rl.training.encoding import TurnEncoder
    from sweet_rl.training.settings import DataSettings

    return TurnEncoder(tokenizer, DataSettings(dataset="", max_len=100_000)).encode(rows)[0]


def pair_of(row):
    from sweet_rl.training.data import read_pair
    from sweet_rl.training.settings import DataSettings

    return read_pair(row, "pairs.jsonl", 1, DataSettings(dataset="pairs.jsonl"))


@pytest.mark.parametrize("name", BY_HAND)
def test_ten_templates_written_out_by_hand(name):
    tokenizer = tiny_tokenizer(trl_templates()[name])
    said = zip(("user", "assistant") * 2, ("A?", "b", "C?", "d"), strict=True)
    dialogue = [{"role": role, "content": text} for role, text in said]
    other = [*dialogue[:3], {"role": "assistant", "content": "e"}]
    (pair,) = learned(tokenizer, [pair_of({"chosen": dialogue, "rejected": other})])
    found = []
    for branch in pair.sides[0].branches:
        text, position = "", 0
        for start, end in branch.scored:
            read, written = (tokenizer.decode(branch.ids[a:b]) for a, b in ((position, start), (start, end)))
            text += f"{read}[{written}]"
            position = end
        found.append(text)
    for text, whole in zip(found, BY_HAND[name], strict=True):
        assert text.endswith(whole)  # a default system text of the template is its own business


def test_every_template_of_trl_on_three_turns_and_on_a_completion(shared):
    from jinja2 import TemplateError

    from sweet_rl.training.data import read_text
    from sweet_rl.training.encoding import TurnEncoder, scored_texts
    from sweet_rl.training.settings import DataSettings

    ends = json.loads((shared / "cases/templates/trl_ends.json").read_text())
    templates = trl_templates()
    assert len(templates) == len(ends) == 72
    asked = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "q one"}]
    for name, text in templates.items():
        end, tokenizer = ends[name]["end"] or "", trl_tokenizer(name, text, ends)
        sides = {}
        for side in ("chosen", "rejected"):
            said = (f"{side} first?", "q two", f"{side} second?", "q three", f"{side} third.")
            roles = ("assistant", "user") * 3
            sides[side] = [{"role": role, "content": one} for role, one in zip(roles, said, strict=False)]
        (pair,) = learned(tokenizer, [pair_of({"prompt": asked, **sides})])
        for side, encoded in (("chosen", pair.sides[0]), ("rejected", pair.sides[1])):
            wanted = [f"{side} {said}{end}" for said in ("first?", "second?", "third.")]
            assert scored_texts(encoded.branches, tokenizer) == wanted, name
            spans = [(branch, start) for branch in encoded.branches for start, _ in branch.scored]
            for (branch, start), place in zip(spans, (2, 4, 6), strict=True):
                messages = [*asked, *sides[side]][:place]
                if ends[name]["content"] == "parts":
                    messages = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
                write = {"tokenize": False, "add_generation_prompt": True}
                try:
                    prompt = tokenizer.apply_chat_template(messages, **write)
                except TemplateError:  # no system role: the first user's message begins with its text
                    assert "gemma" in name
                    continue
                ids = tuple(tokenizer(prompt, add_special_tokens=False)["input_ids"])
                assert branch.ids[: len(ids)] == ids and len(ids) <= start, name
        row = {"prompt": asked, "completion": [{"role": "assistant", "content": "Four."}]}
        texts = [read_text(row, "texts.jsonl", 1, DataSettings(dataset="texts.jsonl"))]
        (encoded,) = TurnEncoder(tokenizer, DataSettings(dataset="", max_len=100_000)).encode(texts)[0]
        assert scored_texts(encoded.branches, tokenizer) == [f"Four.{end}"], name
