"""Frontend tasks from WebSight, and the filter: what is kept, what is dropped and why, and going on after a stop."""

import json
import sys
from types import SimpleNamespace

import pytest

from sweet_rl.errors import DataError, ServiceError, UsageError
from sweet_rl.mini.frontend import pages as mini_web
from sweet_rl.records import load_tasks_file
from sweet_rl.worlds.frontend_design.stages import FilterFlags, filter_websites, prepare_websight
from sweet_rl.worlds.frontend_design.websight import (
    PageRow,
    check_rows,
    read_websight,
    require_text,
    say_dropped,
    task_row,
)
from tests.browsers.fake_renderer import FakeRenderer
from tests.grading.pages.runs import read


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def page(number):
    return f"<html><body><p>Page {number}</p></body></html>"


def websight(number):
    return {"llm_generated_idea": f"Idea {number}.", "text": page(number), "image": None}


def task(number):
    return {"problem_description": f"Idea {number}.", "ground_truth": page(number)}


@pytest.fixture
def renderer(monkeypatch):
    """Stands in for the browsers of the commands."""
    fake = FakeRenderer()
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings=None: fake)
    return fake


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"a": "x", "b": "y"}, None),
        ({"a": "x"}, ("no b", "is missing or null")),
        ({"a": None, "b": "y"}, ("no a", "is missing or null")),
        ({"a": " \n", "b": "y"}, ("no a", "is empty")),
        ({"a": "x", "b": 3}, ("no b", "is a int, not a string")),
    ],
)
def test_fields_must_be_texts(row, expected):
    assert require_text(row, ("a", "b")) == expected


def prepared(tmp_path, rows, **options):
    source = write(tmp_path / "w.jsonl", rows)
    prepare_websight(str(tmp_path / "out"), source, quiet=True, **options)


class TestPrepare:
    def test_the_first_rows_train_and_the_rest_tests(self, tmp_path, renderer, capsys):
        prepared(tmp_path, map(websight, range(12)), num_rows=10, num_train=6)
        assert read(tmp_path / "out/train.jsonl") == [task(n) for n in range(6)]
        assert read(tmp_path / "out/test.jsonl") == [task(n) for n in range(6, 10)]
        assert "6 tasks" in capsys.readouterr().out
        assert renderer.pages == []  # nothing is rendered where nobody asks
        prepared(tmp_path, map(websight, range(3)), overwrite=True)
        assert read(tmp_path / "out/test.jsonl") == []
        assert "All 3 rows went to train.jsonl" in capsys.readouterr().out

    def test_rows_without_a_field_are_dropped_and_named_and_move_no_other_row(self, tmp_path, capsys):
        rows = [websight(n) for n in range(6)]
        rows[1]["text"] = None
        del rows[4]["llm_generated_idea"]
        prepared(tmp_path, rows, num_rows=6, num_train=3)
        assert read(tmp_path / "out/train.jsonl") == [task(0), task(2)]
        assert read(tmp_path / "out/test.jsonl") == [task(3), task(5)]
        verdicts = read(tmp_path / "out/report.jsonl")
        assert [v["reason"] for v in verdicts] == [None, "no text", None, None, "no llm_generated_idea", None]
        out = capsys.readouterr().out
        assert "1 dropped, no text: w.jsonl, line 2" in out
        assert "1 dropped, no llm_generated_idea: w.jsonl, line 5" in out

    def test_pages_that_do_not_render_are_dropped_and_identities_stay(self, tmp_path, renderer):
        options = {"num_rows": 6, "num_train": 3}
        prepared(tmp_path, map(websight, range(6)), **options)
        (tmp_path / "out").rename(tmp_path / "all")
        renderer.fails = {"Page 1<": "too_large"}
        prepared(tmp_path, map(websight, range(6)), validate=True, **options)
        everything = {t.task_id: t.row for t in load_tasks_file(tmp_path / "all/train.jsonl")}
        kept = {t.task_id: t.row for t in load_tasks_file(tmp_path / "out/train.jsonl")}
        assert len(kept) == 2
        assert kept.items() <= everything.items()
        assert read(tmp_path / "out/test.jsonl") == read(tmp_path / "all/test.jsonl")
        assert [v["reason"] for v in read(tmp_path / "out/report.jsonl")][:3] == [None, "too_large", None]

    def test_a_source_without_a_usable_row_is_refused(self, tmp_path):
        with pytest.raises(
            UsageError, match=r"None of the 3 rows.*llm_generated_idea and text.*text, image.*v0\.2"
        ):
            prepared(tmp_path, [{"text": "x", "image": 1}] * 3)
        with pytest.raises(UsageError, match="holds no rows"):
            prepared(tmp_path, [])
        for options in ({"num_rows": 0}, {"num_train": -1}, {"num_rows": 5, "num_train": 6}):
            with pytest.raises(UsageError, match=r"--num_(rows|train) must be at (least|most)"):
                prepared(tmp_path, [], **options)
        assert not (tmp_path / "out").exists()

    def test_what_is_there_is_not_touched(self, tmp_path):
        rows, options = [websight(n) for n in range(3)], {"num_rows": 3, "num_train": 2}
        prepared(tmp_path, rows, **options)
        with pytest.raises(UsageError, match=r"train\.jsonl' exists.*--to_continue.*--overwrite"):
            prepared(tmp_path, rows, **options)
        prepared(tmp_path, rows, overwrite=True, **options)
        with pytest.raises(UsageError, match="exclude each other"):
            prepared(tmp_path, rows, overwrite=True, to_continue=True, **options)
        with pytest.raises(UsageError, match="is a file; name a folder"):
            prepare_websight(str(tmp_path / "w.jsonl"), str(tmp_path / "w.jsonl"))


class TestFilter:
    def test_rows_are_kept_as_they_are_and_dropped_with_a_reason(self, tmp_path, renderer, capsys):
        rows = [task(n) | {"extra": n} for n in range(6)]
        rows[1]["ground_truth"] = None
        rows[2]["problem_description"] = ""
        renderer.fails = {"Page 4": "navigation"}
        source = write(tmp_path / "t.jsonl", rows)
        filter_websites(source, str(tmp_path / "kept.jsonl"), quiet=True)
        assert read(tmp_path / "kept.jsonl") == [rows[0], rows[3], rows[5]]
        verdicts = read(tmp_path / "kept.report.jsonl")
        assert [v["where"] for v in verdicts] == [f"line {n}" for n in range(1, 7)]
        reasons = [None, "no ground_truth", "no problem_description", None, "navigation", None]
        assert [v["reason"] for v in verdicts] == reasons
        assert "the test wants it" in verdicts[4]["detail"]
        out = capsys.readouterr().out
        assert "3 of 6 rows are in" in out
        assert "1 dropped, navigation: line 5" in out

    def test_pictures_are_kept_where_asked_for(self, tmp_path, renderer):
        rows = mini_web.generate("test", 2)  # pages of mini-web pass
        source = write(tmp_path / "t.jsonl", rows)
        filter_websites(source, str(tmp_path / "kept.jsonl"), str(tmp_path / "pictures"), quiet=True)
        pictures = list((tmp_path / "pictures").glob("*.png"))
        assert {one.stem for one in pictures} == {row["page"] for row in read(tmp_path / "kept.report.jsonl")}
        assert all(one.read_bytes().startswith(b"\x89PNG") for one in pictures)
        assert read(tmp_path / "kept.jsonl") == rows

    def test_going_on_renders_only_what_has_no_verdict(self, tmp_path, renderer):
        source, kept = write(tmp_path / "t.jsonl", map(task, range(4))), tmp_path / "kept.jsonl"
        filter_websites(source, str(kept), quiet=True)
        assert len(renderer.pages) == 4
        with pytest.raises(UsageError, match=r"kept\.jsonl' exists"):
            filter_websites(source, str(kept), quiet=True)
        write(tmp_path / "t.jsonl", map(task, (9, 2, 3)))  # the file may change in between
        filter_websites(source, str(kept), to_continue=True, quiet=True)
        assert renderer.pages[4:] == [page(9)]
        assert read(kept) == [task(9), task(2), task(3)]
        filter_websites(source, str(kept), to_continue=True, viewport="800x600", quiet=True)
        assert len(renderer.pages) == 8  # pictures of another size have verdicts of their own
        filter_websites(source, str(kept), overwrite=True, quiet=True)
        assert len(renderer.pages) == 11

    def test_bad_files(self, tmp_path, renderer):
        source = write(tmp_path / "t.jsonl", [task(1)])
        other = write(tmp_path / "o.jsonl", [{"prompt": "x"}])
        for one, target, why in (
            (source, source, "the same file"),
            (source, tmp_path, "is a folder"),
            (tmp_path / "none.jsonl", tmp_path / "k.jsonl", "no file"),
            (other, tmp_path / "k.jsonl", r"None of the 1 rows .*has the fields prompt"),
        ):
            with pytest.raises(UsageError, match=why):
                filter_websites(str(one), str(target))
        (tmp_path / "t.jsonl").write_text('{"a": 1}\n[]\n')
        with pytest.raises(DataError, match="line 2"):
            filter_websites(source, str(tmp_path / "k.jsonl"))


class TestChecks:
    @pytest.fixture
    def checked(self, tmp_path, monkeypatch):
        """The reasons for these pages by this renderer, after what the report has of earlier runs."""

        def check(renderer, *numbers):
            monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: renderer)
            rows = [PageRow(f"line {n}", task(n)) for n in numbers]
            flags = FilterFlags(saved_path="t", filtered_path="k", quiet=True)
            return [row["reason"] for row in check_rows(rows, flags, tmp_path / "r.jsonl")]

        return check

    def test_pages_that_timed_out_are_tried_again_at_the_end_and_by_the_next_run_and_no_other(self, checked):
        renderer = FakeRenderer(fails={"Page 1<": "timeout", "Page 2<": "too_large"})
        assert checked(renderer, 1, 2, 3) == ["timeout", "too_large", None]
        assert sorted(renderer.pages[:3]) == [page(1), page(2), page(3)]
        assert renderer.pages[3:] == [page(1)]
        assert renderer.closed
        renderer = FakeRenderer()
        assert checked(renderer, 1, 2, 3) == [None, "too_large", None]
        assert renderer.pages == [page(1)]

    def test_a_page_that_passes_the_second_time_is_kept(self, checked):
        class Busy(FakeRenderer):
            async def render(self, html):
                self.fails = {} if html in self.pages else {"Page 1<": "timeout"}
                return await super().render(html)

        assert checked(Busy(), 1, 2) == [None, None]

    def test_equal_pages_are_rendered_once(self, checked):
        renderer = FakeRenderer(fails={"Page 1<": "empty"})
        assert checked(renderer, 1, 2, 1, 2) == ["empty", None, "empty", None]
        assert len(renderer.pages) == 2

    def test_an_error_that_a_person_must_mend_ends_the_run_and_loses_nothing(self, checked):
        with pytest.raises(ServiceError, match="no browser"):
            checked(FakeRenderer(raises={"Page 20<": ServiceError("no browser")}), *range(21))
        renderer = FakeRenderer()
        assert len(checked(renderer, *range(21))) == 21
        assert page(20) in renderer.pages
        assert page(1) not in renderer.pages

    def test_many_of_one_reason_are_counted_and_the_first_named(self, capsys):
        say_dropped([{"reason": "empty", "where": f"line {n}"} for n in range(1, 8)])
        named = "; ".join(f"line {n}" for n in range(1, 6))
        assert capsys.readouterr().out == f"  7 dropped, empty: {named}, and 2 more\n"


class TestReadWebsight:
    def test_the_two_fields_become_ours_and_addresses_are_normalised(self):
        html = "<html><img src='{}'></html>".format
        row = websight(1) | {"text": html("https://source.unsplash.com/random/300x200/?cat")}
        assert task_row(row) == task(1) | {"ground_truth": html("https://picsum.photos/id/48/300/200")}

    def test_files_of_a_folder_in_the_order_of_their_names_up_to_the_limit(self, tmp_path):
        write(tmp_path / "b.jsonl", [websight(3), websight(4)])
        source = write(tmp_path / "a.jsonl", [websight(1), websight(2)])
        rows = list(read_websight(str(tmp_path), 3))
        assert [row.where for row in rows] == ["a.jsonl, line 1", "a.jsonl, line 2", "b.jsonl, line 1"]
        assert [row.row["text"] for row in rows] == [page(1), page(2), page(3)]
        assert [row.where for row in read_websight(source, 1)] == ["a.jsonl, line 1"]
        write(tmp_path / "v0.2" / "new.jsonl", [websight(9)])  # of a download only the right version
        assert [row.row["text"] for row in read_websight(str(tmp_path), 9)] == [page(9)]

    @pytest.mark.parametrize("names", [(), ("a.jsonl", "b.parquet")])
    def test_a_folder_without_one_kind_of_file_is_refused(self, tmp_path, names):
        for name in names:
            write(tmp_path / name, [websight(1)])
        with pytest.raises(UsageError, match="both" if names else "neither"):
            list(read_websight(str(tmp_path), 9))

    @pytest.mark.parametrize("source", ["nowhere", "a/b/c", "some/rows.jsonl", "some/rows.parquet"])
    def test_a_source_that_does_not_exist_is_named(self, source):
        with pytest.raises(UsageError, match=r"does not exist.*HuggingFaceM4/WebSight"):
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
        columns = {"text": [page(n) for n in range(5)], "llm_generated_idea": [*"abcd", None]}
        columns["image"] = [b"x"] * 5
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


@pytest.mark.parametrize(
    ("package", "source"), [("pyarrow", "part.parquet"), ("datasets", "HuggingFaceM4/WebSight")]
)
def test_without_the_package_the_message_has_the_line_that_installs_it(
    tmp_path, monkeypatch, package, source
):
    (tmp_path / "part.parquet").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{source}.*pip install 'sweet_rl\[datasets\]'"):
        list(read_websight(source, 9))


class TestHub:
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

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
        rows = list(read_websight("HuggingFaceM4/WebSight", 3))
        assert [row.where for row in rows] == ["row 1", "row 2", "row 3"]
        assert given == [0, 1, 2]
        loaded = ("HuggingFaceM4/WebSight", "v0.2"), {"split": "train", "streaming": True}
        assert asked == [loaded, ["llm_generated_idea", "text"]]

    @pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("no config v0.2")])
    def test_what_goes_wrong_comes_with_the_command_to_run_elsewhere(self, monkeypatch, error):
        def load(*args, **options):
            raise error

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
        with pytest.raises(UsageError, match=r"hf download HuggingFaceM4/WebSight .*v0\.2") as caught:
            list(read_websight("HuggingFaceM4/WebSight", 3))
        assert str(error) in str(caught.value)
