"""WebSight as it is found: on the hub, in Parquet, in JSON Lines; and what is said when it is not."""

import builtins
import json
import sys

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.worlds.frontend_design.websight import read_websight, task_row


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def page(number):
    return f"<html><body><p>Page {number}</p></body></html>"


def websight(number):
    return {"llm_generated_idea": f"Idea {number}.", "text": page(number), "image": None}


class TestTaskRow:
    def test_the_two_fields_become_ours_and_addresses_are_normalised(self):
        row = websight(1) | {
            "text": "<html><img src='https://source.unsplash.com/random/300x200/?cat'></html>"
        }
        assert task_row(row) == {
            "problem_description": "Idea 1.",
            "ground_truth": "<html><img src='https://picsum.photos/id/48/300/200'></html>",
        }


class TestReadWebsight:
    def test_lines_of_a_file_up_to_the_limit(self, tmp_path):
        source = write(tmp_path / "some.jsonl", map(websight, range(5)))
        rows = list(read_websight(source, 3))
        assert [row.where for row in rows] == [
            "some.jsonl, line 1",
            "some.jsonl, line 2",
            "some.jsonl, line 3",
        ]
        assert [row.row["text"] for row in rows] == [page(0), page(1), page(2)]

    def test_files_of_a_folder_in_the_order_of_their_names(self, tmp_path):
        write(tmp_path / "b.jsonl", [websight(3)])
        write(tmp_path / "a.jsonl", [websight(1), websight(2)])
        rows = list(read_websight(str(tmp_path), 9))
        assert [row.where for row in rows] == ["a.jsonl, line 1", "a.jsonl, line 2", "b.jsonl, line 1"]

    def test_of_a_download_only_the_right_version(self, tmp_path):
        write(tmp_path / "data" / "old.jsonl", [websight(1)])
        write(tmp_path / "v0.2" / "new.jsonl", [websight(2)])
        assert [row.row["text"] for row in read_websight(str(tmp_path), 9)] == [page(2)]

    @pytest.mark.parametrize("names", [(), ("a.jsonl", "b.parquet")])
    def test_a_folder_without_one_kind_of_file_is_refused(self, tmp_path, names):
        for name in names:
            write(tmp_path / name, [websight(1)])
        with pytest.raises(UsageError, match="both" if names else "neither"):
            list(read_websight(str(tmp_path), 9))

    @pytest.mark.parametrize("source", ["nowhere", "a/b/c", "some/rows.jsonl", "some/rows.parquet"])
    def test_a_source_that_does_not_exist_is_named(self, source):
        with pytest.raises(UsageError, match=r"is no file and no folder.*HuggingFaceM4/WebSight"):
            read_websight(source, 9)

    def test_a_broken_line_is_named(self, tmp_path):
        source = tmp_path / "some.jsonl"
        source.write_text(json.dumps(websight(1)) + "\n{broken\n")
        with pytest.raises(DataError, match="line 2"):
            list(read_websight(str(source), 9))


class TestParquet:
    @pytest.fixture
    def arrow(self):
        return pytest.importorskip("pyarrow", reason="Parquet needs pip install 'sweet_rl[datasets]'")

    def file(self, path, columns):
        import pyarrow as pa
        from pyarrow.parquet import write_table

        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(pa.table(columns), path, row_group_size=2)
        return str(path)

    def test_rows_and_their_places(self, arrow, tmp_path):
        columns = {
            "image": [b"x"] * 5,
            "text": [page(n) for n in range(5)],
            "llm_generated_idea": [*list("abcd"), None],
        }
        rows = list(read_websight(self.file(tmp_path / "part.parquet", columns), 9))
        assert [row.where for row in rows] == [f"part.parquet, row {n}" for n in range(1, 6)]
        assert rows[1].row == {"llm_generated_idea": "b", "text": page(1)}
        assert rows[4].row["llm_generated_idea"] is None

    def test_the_shards_of_a_download(self, arrow, tmp_path):
        for shard in (1, 0):
            columns = {"text": [page(shard)], "llm_generated_idea": ["x"]}
            self.file(tmp_path / "v0.2" / f"train-0000{shard}-of-00738.parquet", columns)
        assert [row.row["text"] for row in read_websight(str(tmp_path), 9)] == [page(0), page(1)]

    def test_a_file_without_the_columns_says_which_it_has(self, arrow, tmp_path):
        source = self.file(tmp_path / "part.parquet", {"html": ["x"], "prompt": ["y"]})
        with pytest.raises(DataError, match=r"part\.parquet: has none of the columns.*html, prompt.*v0\.2"):
            list(read_websight(source, 9))

    @pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing of use PAR1"])
    def test_a_broken_file_is_named(self, arrow, tmp_path, content):
        (tmp_path / "part.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"part\.parquet: cannot be read as Parquet"):
            list(read_websight(str(tmp_path), 9))

    def test_without_the_package_the_message_has_the_line_that_installs_it(self, tmp_path, monkeypatch):
        (tmp_path / "part.parquet").write_bytes(b"x")
        missing(monkeypatch, "pyarrow")
        with pytest.raises(UsageError, match=r"part\.parquet.*pip install 'sweet_rl\[datasets\]'"):
            list(read_websight(str(tmp_path), 9))


def missing(monkeypatch, package):
    real_import = builtins.__import__

    def refuse(name, *args, **options):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


class TestHub:
    def fake(self, monkeypatch, load):
        class Datasets:
            load_dataset = staticmethod(load)

        monkeypatch.setitem(sys.modules, "datasets", Datasets)

    def test_the_second_version_is_streamed_and_only_as_far_as_needed(self, monkeypatch):
        asked, given = [], []

        class Stream:
            def select_columns(self, names):
                asked.append(names)
                return self

            def __iter__(self):
                for number in range(10**9):
                    given.append(number)
                    yield websight(number)

        def load(*args, **options):
            asked.append((args, options))
            return Stream()

        self.fake(monkeypatch, load)
        rows = list(read_websight("HuggingFaceM4/WebSight", 3))
        assert [row.where for row in rows] == ["row 1", "row 2", "row 3"]
        assert given == [0, 1, 2]
        assert asked == [
            (("HuggingFaceM4/WebSight", "v0.2"), {"split": "train", "streaming": True}),
            ["llm_generated_idea", "text"],
        ]

    @pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("no config v0.2")])
    def test_what_goes_wrong_comes_with_the_command_to_run_elsewhere(self, monkeypatch, error):
        def load(*args, **options):
            raise error

        self.fake(monkeypatch, load)
        with pytest.raises(UsageError, match=r"hf download HuggingFaceM4/WebSight .*v0\.2") as caught:
            list(read_websight("HuggingFaceM4/WebSight", 3))
        assert str(error) in str(caught.value)

    def test_without_the_package_the_message_has_the_line_that_installs_it(self, monkeypatch):
        missing(monkeypatch, "datasets")
        with pytest.raises(UsageError, match=r"pip install 'sweet_rl\[datasets\]'"):
            list(read_websight("HuggingFaceM4/WebSight", 3))
