"""The viewer as files that open offline, the page that it is, and reports from templates, all of which load nothing else.

Model-written text is hostile. The viewer's page inserts it with `textContent` only, which the browser enforces (Trusted
Types); in reports jinja2 escapes it. A Content-Security-Policy allows exactly the scripts and styles whose hashes are computed
here. A page that is not served may not use the network at all.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from sweet_rl.errors import StorageError
from sweet_rl.records import replace_file
from sweet_rl.types import Json
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.library import Library, Shown
from sweet_rl.viewer.rows import LAYOUTS, TRAJECTORIES

ONE_FILE_BYTES = 50_000_000
"""What is larger becomes a folder: no browser likes a page of that size."""
_AT_ONCE = 8  # rows are prepared side by side
_IN_A_FILE = 50  # rows in each script of a folder: read together when one of them is looked at
_STYLES = ("palette.css", "app.css")
_REPORT_STYLES = ("palette.css", "report_page.css")
_SCRIPTS = (  # in the order in which they need each other
    "dom.js", "source.js", "credit.js", "chat.js", "python.js", "diff.js", "code.js", "game.js", "compare.js", "design.js",
    "turns.js", "pairs.js", "charts.js", "documents.js", "files.js", "browse.js", "list.js", "detail.js", "address.js",
    "highlights.js", "app.js",
)  # fmt: skip

_DATA = "<!--data-->"


@dataclass(frozen=True, slots=True)
class Page:
    """A page cut where its data goes, between `head` and `tail`, and the Content-Security-Policy that it declares."""

    head: str
    tail: str
    policy: str


def build_page(title: str, *, served: bool, folder: bool = False) -> Page:
    """The page for a window; `served`, it may ask its own server for rows.

    Of a folder it may take rows from scripts and pictures from files beside it; a page from a disk may read no other files.
    Only names that it makes itself are taken (Trusted Types).
    """
    style = "".join(map(static_text, _STYLES))
    scripts = [static_text(name) for name in _SCRIPTS]
    own_server, names = "'self'" if served else "'none'", "rows" if folder else "'none'"
    beside = " 'self' file:" if folder else ""
    images = " 'self'" if served else beside
    policy = (
        f"default-src 'none'; script-src {' '.join(map(source_hash, scripts))}{beside}; "
        f"style-src {source_hash(style)}; img-src data:{images}; connect-src {own_server}; base-uri 'none'; "
        f"form-action 'none'; require-trusted-types-for 'script'; trusted-types {names}"
    )
    page = _rendered("sweet_rl.viewer", "index.html", policy, style=style, scripts=scripts, title=title)
    head, tail = page.split(_DATA)
    return Page(head, f"{tail}\n", policy)


def data_block(element_id: str, values: Iterable[Json]) -> Iterator[str]:
    """Chunks of an element that holds JSON for the page to read, each value after a line break."""
    yield f'<script type="application/json" id="{element_id}">'
    for value in values:
        yield f"\n{embed(value)}"
    yield "</script>\n"


def embed(value: Json) -> str:
    """JSON that is safe inside an HTML script element: ASCII (surrogates, line separators), without any `<`."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def static_text(name: str) -> str:
    """The text of a packaged file of `static/`."""
    return (files("sweet_rl.viewer") / "static" / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names the inline script or style `text`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def from_template(
    package: str, template: str, *, style: str, script: str = "", rules: Sequence[str] = (), **given: Any
) -> str:
    """A report from a jinja2 template, which has `policy`, `style` and `scripts` beside what is given; `base.html` is ours.

    A package has the folders `templates` and `static`, where template, style and script are named; without a script none may
    run. `rules` are further ones of the Content-Security-Policy.
    """
    own = files(package) / "static"
    css = "".join(map(static_text, _REPORT_STYLES)) + (own / style).read_text(encoding="utf-8")
    javascript = (own / script).read_text(encoding="utf-8") if script else ""
    runs = [f"script-src {source_hash(javascript)}"] if script else []
    trusted = ["require-trusted-types-for 'script'"] if script else []
    policy = ["default-src 'none'", *runs, f"style-src {source_hash(css)}", *rules, "img-src data:"]
    policy += ["base-uri 'none'", "form-action 'none'", *trusted]
    return _rendered(package, template, "; ".join(policy), style=css, scripts=[javascript], **given)


def _rendered(
    package: str, template: str, policy: str, *, style: str, scripts: Sequence[str], **given: Any
) -> str:
    """A template of a package, or of ours; everything is escaped but style and scripts, which are packages' files."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # not loaded for help
    from markupsafe import Markup

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("sweet_rl.viewer")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css, *javascript = map(Markup, (style, *scripts))
    return environment.get_template(template).render(policy=policy, style=css, scripts=javascript, **given)


@dataclass(slots=True)
class Exported:
    """What was written, how many rows there are, and of the pictures how many, and how many were left out."""

    path: Path
    rows: int = 0
    pictures: int = 0
    left_out: int = 0


def export(library: Library, out: str | Path, *, picture_bytes: int = 0, one_file: bool = False) -> Exported:
    """Write the viewer with all files to a page, or, where they are large and `one_file` is not asked for, to a folder.

    A folder is called as the page without its suffix. `picture_bytes` is the room for pictures in one file: those that come
    too late are left out, and the page says so. A folder holds all. The library is closed at the end.
    """
    with asyncio.Runner() as runner:
        try:
            for one in library.files:
                one.bring_up()
            folder = None if one_file else folder_of(library, Path(out))
            if folder is not None:
                return _folder(library, folder, runner)
            exported = Exported(Path(out))
            with tempfile.TemporaryFile("w+") as spool:
                album = _Album(spool, picture_bytes, exported)
                chunks = _chunks(library, runner, album, exported)
                replace_file(exported.path, (chunk.encode() for chunk in chunks))
            return exported
        finally:
            runner.run(library.close())


def folder_of(library: Library, out: str | Path) -> Path | None:
    """The folder that `export` would write instead of the one file; None where it would not."""
    size = sum(one.path.stat().st_size for one in library.files)
    return Path(out).with_suffix("") if size > ONE_FILE_BYTES else None


def _chunks(library: Library, runner: asyncio.Runner, album: _Album, exported: Exported) -> Iterator[str]:
    """One row at a time: prompts and all, a file can be larger than what one would like to hold twice."""

    def counted(shown: Shown) -> Iterator[Json]:
        for position, row in _rows(shown, runner):
            exported.rows += 1
            for name, picture in shown.pictures.of_row(position) if shown.pictures else ():
                album.add(f"{shown.number}/{position}/{name}", picture)
            yield row

    page = build_page(library.title, served=False)
    yield page.head
    yield from _listings(library)
    for shown in library.files:
        if shown.kind in LAYOUTS:
            yield from data_block(f"rows-{shown.number}", counted(shown))
    yield from album.blocks()
    yield page.tail


def _listings(library: Library) -> Iterator[str]:
    """What of the files stands in the page itself, whatever becomes of their rows."""
    files = library.listing()
    yield from data_block("files", [{"title": library.title, "about": library.about, "files": files}])
    for shown in library.files:
        if shown.kind in TRAJECTORIES:
            yield from data_block(f"result-{shown.number}", [shown.result() | {"page": False}])
        if shown.kind in LAYOUTS:
            yield f'<script type="application/json" id="index-{shown.number}">'
            yield shown.listing().replace("<", "\\u003c")
            yield "</script>\n"
        elif shown.kind != "credit":
            yield from data_block(f"document-{shown.number}", [shown.document()])


def _rows(shown: Shown, runner: asyncio.Runner) -> Iterator[tuple[int, dict[str, Json]]]:
    """Every row of a file with its position, prepared."""
    if shown.kind not in LAYOUTS or shown.index is None:
        return

    async def prepare(pictures: DesignContents, positions: range) -> None:
        await asyncio.gather(*map(pictures.prepare, positions))

    for start in range(0, count := len(shown.index), _AT_ONCE):
        positions = range(start, min(start + _AT_ONCE, count))
        if shown.pictures is not None:
            runner.run(prepare(shown.pictures, positions))
        yield from ((position, shown.row(position)) for position in positions)


def _folder(library: Library, out: Path, runner: asyncio.Runner) -> Exported:
    """A page with scripts of rows and pictures beside it, made elsewhere and put in its place at once or not at all."""
    exported, pictures, made = Exported(out / "index.html"), list[str](), Path()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        for name in ("rows", "pictures"):
            (made / name).mkdir()
        for shown in library.files:
            rows = _rows(shown, runner)
            for part in itertools.count():
                chunk = list(itertools.islice(rows, _IN_A_FILE))
                if not chunk:
                    break
                place = f"{shown.number}-{part}"
                with (made / "rows" / f"{place}.js").open("w", encoding="ascii") as file:
                    file.write(f'Source.arrived("{place}", [\n')
                    file.writelines(f"{embed(embed(row))},\n" for _, row in chunk)
                    file.write("]);\n")
                exported.rows += len(chunk)
                for position, _ in chunk:
                    for name, picture in shown.pictures.of_row(position) if shown.pictures else ():
                        (made / "pictures" / f"{shown.number}-{position}-{name}.png").write_bytes(picture)
                        pictures.append(f"{shown.number}/{position}/{name}")
        exported.pictures = len(pictures)
        page = build_page(library.title, served=False, folder=True)
        facts = data_block("folder", [{"rows": _IN_A_FILE, "pictures": pictures}])
        text = "".join([page.head, *facts, *_listings(library), page.tail])
        (made / "index.html").write_text(text, encoding="utf-8")
        made.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    except OSError as error:
        raise StorageError(f"Cannot write {str(out)!r}: {error.strerror}.") from error
    finally:
        if made != Path():
            with contextlib.suppress(OSError):
                shutil.rmtree(made)
    return exported


class _Album:
    """Pictures on their way into the file, each kept once; they wait in `spool`, since they stand behind their rows."""

    def __init__(self, spool: IO[str], room: int, exported: Exported) -> None:
        self._spool, self._room, self._exported = spool, room, exported
        self._lines: dict[bytes, int] = {}
        self._no_room: set[bytes] = set()
        self._places: dict[str, int] = {}

    def add(self, name: str, picture: bytes) -> None:
        """Keep a picture under a name, if there is room."""
        digest = hashlib.sha256(picture).digest()
        if digest in self._no_room:
            return
        if digest not in self._lines:
            url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
            self._exported.pictures += 1
            if len(url) > self._room:
                self._exported.left_out += 1
                self._no_room.add(digest)
                return
            self._room -= len(url)
            self._lines[digest] = len(self._lines)
            self._spool.write(f"\n{embed(url)}")
        self._places[name] = self._lines[digest]

    def blocks(self) -> Iterator[str]:
        """The pictures, one a line, and the lines' numbers by name."""
        yield '<script type="application/json" id="pictures">'
        self._spool.seek(0)
        while piece := self._spool.read(1 << 20):
            yield piece
        yield "</script>\n"
        yield from data_block("picture-lines", [self._places])
