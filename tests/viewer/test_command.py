"""The stage: flags to export or server."""

import pytest

from sweet_rl.commands.view import visualize_design_dialogue_histories, visualize_dialogue_histories
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.viewer import server
from tests.viewer.page_samples import page_rows
from tests.viewer.samples import write_rows


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


def test_opens_a_browser_only_when_told(sample_file, served, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or False)
    visualize_dialogue_histories(str(sample_file))
    assert opened == []
    visualize_dialogue_histories(str(sample_file), open_browser=True)
    assert opened == ["http://address/"]
    assert "open http://address/ yourself" in capsys.readouterr().out


def test_export_writes_the_file_and_serves_nothing(sample_file, served, tmp_path, capsys):
    out = tmp_path / "deep" / "out.html"
    visualize_dialogue_histories(str(sample_file), export=str(out))
    assert out.read_text().startswith("<!doctype html>")
    assert f"9 rows exported to {out}" in capsys.readouterr().out
    assert served == []


def test_what_a_person_can_get_wrong(sample_file, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"task": {}}\n')
    with pytest.raises(UsageError, match="There is no file"):
        visualize_dialogue_histories(str(tmp_path / "missing.jsonl"))
    with pytest.raises(UsageError, match=r"broken\.jsonl' is nothing that is shown here"):
        visualize_dialogue_histories(str(broken))
    with pytest.raises(UsageError, match="--port must be from 0 to 65535, got 70000"):
        visualize_dialogue_histories(str(sample_file), port=70000)
    for export in (tmp_path, sample_file, "True"):  # "True" is what a bare --export gives
        with pytest.raises(UsageError, match=r"--export must name an \.html file, got"):
            visualize_dialogue_histories(str(sample_file), export=str(export))
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
