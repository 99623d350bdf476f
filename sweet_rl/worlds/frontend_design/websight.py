"""Frontend tasks from WebSight v0.2, the source of ColBench's pages, and which of them render.

Rows come from the hub or from files. Every verdict on a page is a line of a report; it belongs to a page and
a way of rendering. Published behaviour: docs/published/sweet_rl.md#files, #frontend-design.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sweet_rl import browsers
from sweet_rl.browsers.page import RenderFailed, normalise_urls
from sweet_rl.cli.progress import Bar, run_until_stopped
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.network import without_hub_if_silent
from sweet_rl.records import Journal, read_rows, replace_file, replace_rows
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.worlds.frontend_design.stages import PageFlags

HUB_DATASET = "HuggingFaceM4/WebSight"
HUB_VERSION = "v0.2"
FIELDS = {"problem_description": "llm_generated_idea", "ground_truth": "text"}
"""Our field to WebSight's."""

_SUFFIXES = (".parquet", ".jsonl")


class PageRow(NamedTuple):
    """A row, its position for messages ("part.jsonl, line 3"), and why it is dropped without a look at its
    page: a word, and a clause."""

    where: str
    row: Mapping[str, Json]
    missing: tuple[str, str] | None = None

    @property
    def digest(self) -> str:
        """Of its page; only for rows that have one."""
        return hashlib.sha256(str(self.row["ground_truth"]).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def task_row(row: Mapping[str, Json]) -> dict[str, Json]:
    """The task that a WebSight row makes, its picture addresses normalised: the two published fields, no
    more."""
    return {
        ours: normalise_urls(str(row[theirs])) if ours == "ground_truth" else row[theirs]
        for ours, theirs in FIELDS.items()
    }


def read_websight(source: str, limit: int) -> Iterator[PageRow]:
    """The first `limit` rows, in the order of the data set."""
    path = Path(source).expanduser()
    if path.exists():
        return islice(_from_files(path), limit)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and path.suffix not in _SUFFIXES:
        return _from_hub(source, limit)
    raise UsageError(
        f"{source!r} does not exist (looked in {str(Path.cwd())!r}). The rows can come "
        f"from a .parquet or .jsonl file, a folder of them, or the hub ({HUB_DATASET!r})."
    )


def _from_files(path: Path) -> Iterator[PageRow]:
    """Rows of a file, or of those of one kind in a folder: with both it would hold the same rows twice."""
    within = path / HUB_VERSION if (path / HUB_VERSION).is_dir() else path
    found = {suffix: sorted(within.rglob(f"*{suffix}")) for suffix in _SUFFIXES}
    kinds = [suffix for suffix, files in found.items() if files]
    if path.is_dir() and len(kinds) != 1:
        what = "both .parquet and .jsonl files" if kinds else "neither .parquet nor .jsonl files"
        raise UsageError(
            f"The folder {str(within)!r} holds {what}. Name one file, or a folder with one kind."
        )
    for file in found[kinds[0]] if path.is_dir() else [path]:
        name = str(file.relative_to(path)) if path.is_dir() else file.name
        if file.suffix == ".parquet":
            for number, row in enumerate(_parquet_rows(file), start=1):
                yield PageRow(f"{name}, row {number}", row)
        else:
            for number, row in read_rows(file):
                yield PageRow(f"{name}, line {number}", row)


def _parquet_rows(path: Path) -> Iterator[dict[str, Json]]:
    """Rows with those of WebSight's two fields that the file has; pictures are not read."""
    try:
        # Heavy, and only these files need it.
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_package("pyarrow", "datasets", needed_for=f"Reading {str(path)!r}") from None
    try:
        with ParquetFile(path) as file:
            columns = [name for name in FIELDS.values() if name in file.schema_arrow.names]
            if not columns:
                raise DataError(
                    f"has none of the columns {', '.join(FIELDS.values())}",
                    path=path,
                    value=", ".join(file.schema_arrow.names),
                    repair=f"WebSight {HUB_VERSION} has them; earlier versions do not.",
                )
            for batch in file.iter_batches(batch_size=256, columns=columns):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"cannot be read as Parquet ({reason})",
            path=path,
            repair="Download it again, or remove it from the folder.",
        ) from error


def _from_hub(name: str, limit: int) -> Iterator[PageRow]:
    without_hub_if_silent()
    try:
        # Heavy, and only this source needs it.
        from datasets import load_dataset
    except ImportError:
        raise missing_package("datasets", "datasets", needed_for=f"Streaming {name!r} from the hub") from None
    try:
        stream = load_dataset(name, HUB_VERSION, split="train", streaming=True)
        rows = stream.select_columns(list(FIELDS.values()))
        for number, row in enumerate(islice(rows, limit), start=1):
            yield PageRow(f"row {number}", row)
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such data set, no such version
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"Cannot stream {HUB_VERSION} of {name!r} from the hub ({reason}). "
            "On a machine with network run\n"
            f"  hf download {name} --repo-type dataset --local-dir websight "
            f"--include '{HUB_VERSION}/*-0000*'\n"
            "and give the folder instead: --source websight. "
            "Without network, 'mini-web:train' needs no download."
        ) from error


_MAY_PASS = {"timeout", "crash"}
"""What can be the fault of a busy machine: tried again, alone, at the end of a run and by the next one."""

_SHOWN = 5


def require_text(row: Mapping[str, Json], fields: Sequence[str]) -> tuple[str, str] | None:
    """The error of the first of these fields that is not a text: a short word, and a clause."""
    for name in fields:
        value = row.get(name)
        if not isinstance(value, str):
            found = type(value).__name__
            return f"no {name}", "is missing or null" if value is None else f"is a {found}, not a string"
        if not value.strip():
            return f"no {name}", "is empty"
    return None


def check_rows(
    rows: Sequence[PageRow], flags: PageFlags, report_path: Path, pictures: str | None = None
) -> list[dict[str, Json]]:
    """A verdict for each row, in their order; its `reason` is None where the row is kept. A stopped run goes
    on from the report, with the verdicts that were rendered with the same settings."""
    rendered_with = flags.rendered_with()
    with Journal(report_path, overwrite=flags.overwrite) as journal:
        verdicts = {
            str(row["page"]): row
            for _, row in journal.rows
            if row.get("rendered_with") == rendered_with and row["reason"] not in _MAY_PASS
        }
        todo = {digest: row for row in rows if row.missing is None and (digest := row.digest) not in verdicts}
        done, again = len(verdicts), list[str]()

        async def render() -> None:
            """Fill in the verdicts, each appended to the report at once; the last one counts."""

            async def check(digest: str) -> None:
                row, reason, detail = todo[digest], None, ""
                try:
                    rendered = await renderer.render(str(row.row["ground_truth"]))
                    if pictures is not None:
                        path = Path(pictures) / f"{digest}.png"
                        await asyncio.to_thread(replace_file, path, [rendered.image])
                except RenderFailed as error:
                    reason, detail = error.failure.kind, error.failure.detail
                verdict = {"where": row.where, "page": digest, "reason": reason, "detail": detail}
                verdicts[digest] = verdict | {"rendered_with": rendered_with}
                await journal.append_soon(verdicts[digest])
                bar.update(reason not in _MAY_PASS or digest in again)

            async with browsers.open_renderer(flags.rendering()) as renderer:
                with Bar(done + len(todo), done, unit="page", quiet=flags.quiet) as bar:
                    await for_each(todo, check, at_once=4 * flags.browsers)
                    again.extend(digest for digest in todo if verdicts[digest]["reason"] in _MAY_PASS)
                    await for_each(again, check, at_once=1)

        if todo:
            total = done + len(todo)
            run_until_stopped(render(), report_path, total, noun="verdicts on pages", verb="renders")
        report = [
            unrendered(row) if row.missing else {**verdicts[row.digest], "where": row.where} for row in rows
        ]
        replace_rows(report_path, report)
    return report


def unrendered(row: PageRow) -> dict[str, Json]:
    """The verdict on a row whose page is not looked at."""
    reason, detail = row.missing or (None, "")
    return {"where": row.where, "reason": reason, "detail": detail}


def refuse_to_overwrite(paths: Iterable[Path], flags: PageFlags) -> None:
    """Never change rows unless a flag allows it."""
    if flags.overwrite and flags.to_continue:
        raise UsageError("--overwrite and --to_continue exclude each other.")
    there = [str(path) for path in paths if path.is_file() and path.stat().st_size]
    if there and not (flags.to_continue or flags.overwrite):
        raise UsageError(
            f"{there[0]!r} exists. Pass --to_continue to resume it (rendered pages are not "
            "rendered again), --overwrite to start again, or choose another path."
        )


def say_dropped(report: Sequence[Mapping[str, Json]]) -> None:
    """Print how many rows were dropped and why, and name the first of each reason."""
    dropped = [row for row in report if row["reason"] is not None]
    counts = Counter(str(row["reason"]) for row in dropped)
    for reason, count in counts.most_common():
        places = [str(row["where"]) for row in dropped if row["reason"] == reason]
        more = f", and {count - _SHOWN} more" if count > _SHOWN else ""
        print(f"  {count} dropped, {reason}: {'; '.join(places[:_SHOWN])}{more}")
    if not _MAY_PASS.isdisjoint(counts):
        print("  On a quieter machine the same command with --to_continue tries those again that may pass.")


def require_rows(rows: Sequence[PageRow], source: str, fields: Sequence[str], repair: str) -> None:
    """Refuse a source of which no row can become a task."""
    if not rows:
        raise UsageError(f"{source!r} holds no rows. {repair}")
    if all(row.missing for row in rows):
        raise UsageError(
            f"None of the {len(rows)} rows of {source!r} has both {' and '.join(fields)}. "
            f"The first one has the fields {', '.join(rows[0].row) or '(none)'}. {repair}"
        )


def read_tasks(source: str, num_rows: int, *, quiet: bool) -> list[PageRow]:
    """The rows as tasks; those that cannot become one with what is missing."""
    rows = []
    with Bar(num_rows, 0, unit="row", quiet=quiet) as bar:
        for where, row, _ in read_websight(source, num_rows):
            missing = require_text(row, tuple(FIELDS.values()))
            rows.append(PageRow(where, row if missing else task_row(row), missing))
            bar.update()
    repair = f"WebSight {HUB_VERSION} has both; earlier versions do not."
    require_rows(rows, source, tuple(FIELDS.values()), repair)
    return rows
