"""The page as a text, what cannot get out of its data, and the stages that export or serve it."""

import base64
import contextlib
import hashlib
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sweet_rl.commands.view import visualize_design_dialogue_histories, visualize_dialogue_histories
from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.integrations.export import export as export_rows
from sweet_rl.records import load_trajectories
from sweet_rl.viewer import server
from sweet_rl.viewer.export import build_page, data_block, embed, export
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.rows import LAYOUTS
from tests.viewer.samples import ATTACK, index_by, page_rows, write_rows

BLOCK = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)


@pytest.mark.parametrize("text", [ATTACK, "</SCRIPT>", "<!--<script>", "\u2028\u2029", "\ud800", "é𝄞"])
def test_embedded_text_is_plain_ascii_without_markup_and_comes_back(text):
    embedded = embed({"text": text})
    assert embedded.isascii() and "<" not in embedded
    assert json.loads(embedded) == {"text": text}


@pytest.mark.parametrize("served", [False, True])
def test_policy_allows_exactly_the_page_s_own_scripts_and_style(served):
    page = build_page("t", served=served)
    text = page.head + page.tail
    hashes = {"script": set(), "style": set()}
    for name, block in re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL):
        hashes[name].add(f"'sha256-{base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()}'")
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    for name, own in hashes.items():
        assert set(rules[f"{name}-src"].split()) == own != set()
    asks = ("'self'", "data: 'self'") if served else ("'none'", "data:")
    assert (rules["default-src"], rules["connect-src"], rules["img-src"]) == ("'none'", *asks)


def test_page_refers_to_nothing_elsewhere():
    page = build_page("t", served=False)
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", page.head + page.tail)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}  # a namespace, which nobody loads
    assert " src=" not in page.head + page.tail


def test_title_is_text():
    page = build_page("<script>x</script> & <!--style--> <!--data-->", served=False)
    title = "&lt;script&gt;x&lt;/script&gt; &amp; &lt;!--style--&gt; &lt;!--data--&gt;"
    assert f"<title>{title}</title>" in page.head


def test_export_holds_index_and_rows_one_a_line(exported, trajectories):
    blocks = dict(BLOCK.findall(Path(urlsplit(exported).path).read_text(encoding="utf-8")))
    index = index_by("code", trajectories, "sample.jsonl")
    assert json.loads(blocks["index-0"]) == index | {"broken": []}
    first, *lines = blocks["rows-0"].split("\n")
    assert first == ""
    rows = list(map(LAYOUTS["code"].row, trajectories))
    assert [{name: one[name] for name in rows[0]} for one in map(json.loads, lines)] == rows


def test_export_that_fails_leaves_the_old_file(sample_file, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="Cannot write"):
        export(Library([sample_file]), tmp_path / "file" / "out.html")
    assert (tmp_path / "file").read_text() == "x"


def test_data_block_ends_where_it_should():
    assert BLOCK.fullmatch("".join(data_block("rows", [ATTACK, ATTACK])).strip()).group(2).count("\n") == 2


@pytest.fixture
def served(monkeypatch):
    """Stands in for the server, which would never return: what it was asked to serve, and where."""
    calls = []

    def fake(library, *, on_ready, **settings):
        calls.append(settings | {"files": len(library.files), "title": library.title})
        on_ready("http://address/")

    monkeypatch.setattr(server, "serve", fake)
    return calls


def test_serves_on_loopback_and_the_published_port_by_default(sample_file, served, capsys):
    visualize_dialogue_histories(str(sample_file))
    assert served == [{"files": 1, "title": "sample.jsonl", "host": "127.0.0.1", "port": 9785}]
    out, err = capsys.readouterr()
    assert "sample.jsonl at http://address/" in out
    assert err == ""


def test_warns_when_others_are_let_in(sample_file, served, capsys):
    visualize_dialogue_histories(str(sample_file), host="0.0.0.0")
    assert "warning: --host 0.0.0.0 lets every machine" in capsys.readouterr().err


def test_a_default_port_that_is_taken_is_no_error(sample_file, served, capsys):
    try:
        taken = socket.create_server(("127.0.0.1", 9785))
    except OSError:  # somebody else has it, which is as good
        taken = contextlib.nullcontext()
    with taken:
        visualize_dialogue_histories(str(sample_file))
        visualize_dialogue_histories(str(sample_file), port=9785)  # what is asked for is taken at its word
    assert [call["port"] for call in served] == [0, 9785]
    assert capsys.readouterr().err == "Port 9785 is taken: a free one is used.\n"


def test_export_writes_the_file_and_serves_nothing(sample_file, served, tmp_path, capsys):
    out = tmp_path / "deep" / "out.html"
    visualize_dialogue_histories(str(sample_file), export=str(out))
    assert out.read_text().startswith("<!doctype html>")
    assert f"9 rows exported to {out}" in capsys.readouterr().out
    assert served == []


def test_what_a_person_can_get_wrong(sample_file, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"task": {}}\n')
    not_html = r"--export must name an \.html file, got"
    for path, flags, words in (
        (tmp_path / "missing.jsonl", {}, "There is no file"),
        (broken, {}, r"broken\.jsonl' is nothing that is shown here"),
        (sample_file, {"port": 70000}, "--port must be from 0 to 65535, got 70000"),
        *(
            (sample_file, {"export": str(out)}, not_html) for out in (tmp_path, sample_file, "True")
        ),  # a bare --export
    ):
        with pytest.raises(UsageError, match=words):
            visualize_dialogue_histories(str(path), **flags)
    with pytest.raises(StorageError):
        visualize_dialogue_histories(str(sample_file), export=str(broken / "out.html"))


def test_pages_are_exported_with_their_pictures(tmp_path, served, capsys):
    saved = write_rows(tmp_path / "pages.jsonl", page_rows(tmp_path))
    out = tmp_path / "pages.html"
    visualize_design_dialogue_histories(str(saved), export=str(out), export_mb=0.0002)
    said = capsys.readouterr().out
    assert f"4 rows exported to {out}" in said
    assert "pictures found no room in it; --export_mb of `sweet-rl view` gives them more." in said
    visualize_design_dialogue_histories(str(saved), temp_path=str(tmp_path))
    assert served == [{"files": 1, "title": "pages.jsonl", "host": "127.0.0.1", "port": 9785}]
    with pytest.raises(UsageError, match="--export_mb must be at least 0, got -1"):
        visualize_design_dialogue_histories(str(saved), export_mb=-1)
    with pytest.raises(UsageError, match="--browser must be chromium or firefox"):
        visualize_design_dialogue_histories(str(saved), browser="lynx")


def says(role, content):
    return {"role": role, "content": content}


SAID = (("reasoning", "Easy."), ("text", "4"), ("image", "data:,"))
PARTS = [{"type": name, name: text} for name, text in SAID]
SAMPLES = [
    {"id": 1, "epoch": 2, "input": "2+2?", "target": ["4", "four"]}
    | {"messages": [says("system", "Be brief."), says("user", "attachment://abc"), says("assistant", PARTS)]}
    | {"scores": {"match": {"value": "C"}, "other": {"value": 0}}, "attachments": {"abc": "2+2? Think."}}
    | {"events": [{"event": "attachment://abc"}]},
    {"id": "b", "epoch": 1, "input": [says("user", "3+3?")], "target": "6"}
    | {"messages": [says("user", "3+3?"), says("assistant", "7")]}
    | {"scores": {"match": {"value": float("nan")}}},
]
ABOUT = {"task": "sums", "model": "openai/gpt-4o"}
LOG = {"version": 2, "status": "success", "eval": ABOUT, "samples": SAMPLES}


def test_logs_of_inspect_ai_in_json_are_dialogues_without_its_package(tmp_path, capsys):
    """As `inspect eval --log-format json` and `inspect log convert --to json` write them."""
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "sums.json"
    log.write_text(json.dumps(LOG))
    export_rows(str(log), str(tmp_path / "rows.jsonl"), to="trajectories")
    assert "1 of them have no reward." in capsys.readouterr().out
    first, second = load_trajectories(tmp_path / "rows.jsonl")
    assert (first.key, first.reward, first.answer) == (("1", 1), 1.0, "4\n[image]")
    assert (first.task.ground_truth, first.task.problem_description) == ("4\nfour", "2+2?")
    assert [message.content for message in first.dialogue_history] == ["2+2? Think.", "4\n[image]"]
    assert first.dialogue_history[1].thoughts == "Easy."
    assert first.provenance["agent_model"] == "openai/gpt-4o"
    assert (second.key, second.reward, second.task.problem_description) == (("b", 0), None, "3+3?")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", json.dumps({"eval": {}, "status": "error"}), "it holds no samples"),
        ("a.json", json.dumps(LOG | {"samples": [{"id": 1, "epoch": 1}]}), "a sample cannot be read"),
        ("a.json", json.dumps(LOG)[:-200], "is not JSON .* a log of inspect_ai has eval, status and samples"),
    ],
)
def test_what_is_no_log_gets_a_sentence(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((DataError, UsageError), match=message):
        export_rows(str(tmp_path / name), str(tmp_path / "rows.jsonl"), to="trajectories")
    assert not (tmp_path / "rows.jsonl").exists()
