"""Files of pipelines: YAML laid over other YAML, with the references of OmegaConf, the steps it describes, and their run.

Every flag of every stage is checked before anything runs; an error names file, line, stage and flag.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sweet_rl.cli import parse
from sweet_rl.cli.main import COMMANDS, stages
from sweet_rl.cli.parse import joined_flags, stage_flags, values_of
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import SweetRLError, UsageError, first_line, missing_package, no_such, suggestion
from sweet_rl.flags import REQUIRED, flag, group, listed
from sweet_rl.flags.shared import Jobs
from sweet_rl.pipelines.steps import COPY, Step, function_of
from sweet_rl.records import check_yaml

_NO_STEPS: Final = frozenset({"run", "demo", "demo_archer", "demo_reflect", "play"})
_KEYS: Final = "description extends folder values defaults launchers stages iterations next".split()
_MAPPINGS: Final = ("values", "defaults", "launchers", "stages", "next")
_STAGE_KEYS: Final = ("run", "with", "args", "needs", "launcher", "once")
_REFERENCE: Final = re.compile(r"\$\{\s*+([\w-]++)\.([\w-]++)")


class Tree(NamedTuple):
    """A file as it is written: mappings, lists, texts and None, and by its dotted path where each value was given."""

    values: dict[str, Any]
    places: dict[str, str]

    def error(self, path: str, problem: str) -> UsageError:
        """The error for a value, with file and line, or the override."""
        path = path.replace("-", "_")
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return UsageError(f"{self.places[path]}: {problem}")

    def check_keys(self, path: str, known: Iterable[str], what: str) -> None:
        """Refuse what is no mapping, and unknown keys."""
        found: Any = self.values
        for name in path.split(".") if path else ():
            found = found[name]
        if found is not None and not isinstance(found, dict):
            raise self.error(path, f"{what} must be a mapping (`name: value` lines), got {found!r}.")
        for name in found or {}:
            if name not in known:
                words = f"has no {name!r}{suggestion(name, known)}. It may have: {', '.join(known)}."
                raise self.error(f"{path}.{name}".strip("."), f"{what} {words}")


def read_file(path: str | Path, above: tuple[Path, ...] = ()) -> Tree:
    """A file laid over those that it extends, which are looked for beside the file that names them."""
    try:
        import omegaconf  # noqa: F401 - which brings yaml
        import yaml
    except ImportError as error:
        raise missing_package(
            error.name or "omegaconf", "pipelines", needed_for="A pipeline's file"
        ) from None
    file = Path(path).expanduser()
    if file.resolve() in above:
        raise UsageError(f"{file} extends itself, through {above[-1]}.")
    try:
        text = file.read_text(encoding="utf-8")
        check_yaml(text, file)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.") from error
    places = dict[str, str]()

    def plain(node: Any, at: str, line: int) -> Any:
        """What a node says: a value stays the text that was written until a flag reads it."""
        places[at.replace("-", "_")] = f"{file}, line {line}"
        if node.id == "scalar":
            return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
        if node.id == "sequence":
            return [plain(one, at, line) for one in node.value]
        found = dict[str, Any]()
        for key, value in node.value:
            if (name := str(key.value)) in found:
                raise UsageError(f"{file}, line {key.start_mark.line + 1}: {name!r} is defined twice.")
            found[name] = plain(value, f"{at}.{name}".strip("."), key.start_mark.line + 1)
        return found

    values = None if root is None else plain(root, "", 1)
    if not isinstance(values, dict):
        raise UsageError(
            f"{file} must be a mapping (`name: value` lines) and is {'empty' * (not values)}{values or ''}."
        )
    tree, bases = Tree(values, places), values.pop("extends", None) or []
    below = Tree({}, {"": str(file)})
    for base in [bases] if isinstance(bases, str) else bases:
        if not (named := file.parent / base).is_file():
            near = suggestion(named.name, [one.name for one in named.parent.glob("*.yaml")])
            raise tree.error("extends", f"extends {base!r}, and there is no file {str(named)!r}{near}.")
        below = laid_over(below, read_file(named, (*above, file.resolve())))
    return laid_over(below, tree)


def laid_over(base: Tree, over: Tree) -> Tree:
    """Mappings are merged entry by entry; any other value of `over` replaces the old one.

    A stage that runs another command is another stage: nothing of the old one stays.
    """

    def merged(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new
        if old.get("run") and new.get("run") and old["run"] != new["run"]:
            return new
        return old | {name: merged(old.get(name), value) for name, value in new.items()}

    return Tree(merged(base.values, over.values), base.places | over.places)


def override(tree: Tree, setting: str) -> None:
    """Set one value: `values.x=3`, `folder=outputs/run2`, `stages.critic.with.beta=0.3`."""
    path, equals, text = setting.partition("=")
    *way, last = path.strip().split(".")
    place = f"--set {setting}"
    if not equals or not last:
        raise UsageError(f"{place}: write NAME=VALUE, for example --set values.model=/models/mine.")
    node = tree.values
    for depth, name in enumerate(way):
        if depth == 1 and way[0] == "stages" and name not in node:
            raise UsageError(f"{place}: {no_such('stage', name, node)}")
        if node.get(name) is None:
            node[name] = {}
        node = node[name]
        if not isinstance(node, dict):
            raise UsageError(f"{place}: {name} is {node!r}, not a mapping.")
    if way == ["values"] and last not in node:
        raise UsageError(f"{place}: {no_such('value', last, node)}")
    node[last] = None if text == "null" else text
    tree.places[path.strip().replace("-", "_")] = place


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a file describes: a folder, and steps in an order in which they can be run."""

    folder: Path
    steps: tuple[Step, ...]

    def chosen(self, *, only: Iterable[str] = (), until: Iterable[str] = ()) -> tuple[Step, ...]:
        """Some of the steps: `only` these, or `until` these with all that they need. A name counts in every round."""

        def named(names: Iterable[str]) -> set[str]:
            found = set[str]()
            for name in names:
                fits = {step.name for step in self.steps if name in {step.name, step.name.rpartition("/")[2]}}
                if not fits:
                    raise no_such("stage", name, [step.name for step in self.steps])
                found |= fits
            return found

        if names := named(only):
            return tuple(step for step in self.steps if step.name in names)
        wanted = named(until)
        for step in reversed(self.steps):
            if step.name in wanted:
                wanted |= set(step.needs)
        return tuple(step for step in self.steps if step.name in wanted) if wanted else self.steps


def build(tree: Tree) -> Pipeline:
    """The steps of a pipeline, checked."""
    tree.check_keys("", _KEYS, "a pipeline")
    top = tree.values
    for key in ("folder", "stages"):
        if not top.get(key):
            raise tree.error("", f"a pipeline needs {key!r}.")
    for key in _MAPPINGS:
        tree.check_keys(key, top.get(key) or (), key) if key in top else None
    known = {name: one for name, one in top["stages"].items() if one is not None}
    for name in known:
        at = f"stages.{name}"
        if not re.fullmatch(r"[A-Za-z][\w-]*", name) or name in {"values", "folder", "round", "stages"}:
            raise tree.error(
                at, f"a stage cannot be called {name!r}: use letters, digits, - and _, and no reserved word."
            )
        tree.check_keys(at, _STAGE_KEYS, f"the stage {name!r}")
        if not known[name].get("run"):
            raise tree.error(at, f"the stage {name!r} needs `run`: a command, for example train_dpo.")
        if (known[name].get("once") or "false") not in {"true", "false"}:
            raise tree.error(f"{at}.once", "once must be true or false.")
    for part in ("defaults", "launchers"):
        for run in top.get(part) or ():
            if ":" not in run and run not in COMMANDS and run not in stages():
                raise tree.error(f"{part}.{run}", str(no_such("stage", run, stages())))
    rounds, following = top.get("iterations") or "1", top.get("next") or {}
    if not str(rounds).isdigit() or not int(rounds):
        raise tree.error("iterations", f"iterations must be a whole number of at least 1, got {rounds!r}.")
    if int(rounds) > 1 and not following:
        raise tree.error(
            "iterations", "more than one iteration needs `next`: what one takes from the previous one."
        )
    for name in following:
        if name not in (top.get("values") or {}):
            raise tree.error(f"next.{name}", str(no_such("value", name, top.get("values") or {})))
    now: _Round | None = None
    steps = list[Step]()
    for number in range(1, int(rounds) + 1):
        now = _Round(tree, number, now)
        left = {step.name: step for step in map(now.step, now.names)}
        while left:  # as they stand in the file, but each behind those that it needs
            ready = next((step for step in left.values() if left.keys().isdisjoint(step.needs)), None)
            if ready is None:
                raise UsageError(f"These stages depend on each other: {', '.join(left)}.")
            steps.append(left.pop(ready.name))
    return Pipeline(Path(now.root if now else ""), tuple(steps))


class _Round:
    """One round of the stages: their flags with all references resolved, and the steps that come before each."""

    def __init__(self, tree: Tree, number: int, before: _Round | None) -> None:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        self._tree, top = tree, tree.values
        self._stages = {name: one for name, one in top["stages"].items() if one is not None}
        once = {name for name, one in self._stages.items() if number > 1 and one.get("once") == "true"}
        self.names = [name for name in self._stages if name not in once]
        self._full = {name: f"round-{number}/{name}" if number > 1 else name for name in self.names}
        self._full |= {name: name for name in once}
        self._values, self._behind = dict(top.get("values") or {}), dict[str, set[str]]()
        if before is not None:
            self._values |= before.following
            self._behind = {name: before.needs_of(text) for name, text in top["next"].items()}
        folder = top["folder"] if before is None else f"{before.root}/round-{number}"
        scope = {"values": self._values, "folder": folder, "round": str(number), "stages": self._stages}
        try:
            config: Any = OmegaConf.create(scope)
            self.runs = {name: " ".join(str(config.stages[name].run).split()) for name in self._stages}
            for name, run in self.runs.items():
                parts = ((top.get("defaults") or {}).get(run), self._stages[name].get("with"))
                flags = {flag.replace("-", "_"): one for part in parts for flag, one in (part or {}).items()}
                config[name] = before.flags[name] if before is not None and name in once else flags
                launcher = self._stages[name].get("launcher", (top.get("launchers") or {}).get(run))
                config.stages[name].launcher = launcher
            config["next"] = top.get("next") or {}
            self._raw: Any = OmegaConf.to_container(config)
            found: Any = OmegaConf.to_container(config, resolve=True)
        except OmegaConfBaseException as error:
            first, _, rest = str(error.full_key).partition(".")
            run = self.runs.get(first, "") if hasattr(self, "runs") else ""
            paths = (f"stages.{first}.with.{rest}", f"defaults.{run}.{rest}", str(error.full_key))
            at = next((path for path in paths if path.replace("-", "_") in tree.places), f"stages.{first}")
            named = re.search(r"key '(?:values\.)?([\w.-]+)'", str(error))
            near = suggestion(named[1], [*self._values, *self._stages]) if named else ""
            raise tree.error(at, f"{first_line(error)}{near}.") from None
        self.root: str = found["folder"] if before is None else before.root
        self.following: dict[str, Any] = found["next"]
        self.flags: dict[str, dict[str, Any]] = {name: found[name] for name in self._stages}
        self._resolved = found["stages"]

    def needs_of(self, text: Any) -> set[str]:
        """The steps whose flags a text refers to, also by way of values."""
        found = set[str]()
        for first, second in _REFERENCE.findall(str(text)):
            if first in self._full:
                found.add(self._full[first])
            else:
                found |= self._behind.get(second) or self.needs_of(self._values.get(second))
        return found

    def step(self, name: str) -> Step:
        """One stage of the round, its flags read as its command line reads them."""
        tree, stage, run = self._tree, self._resolved[name], self.runs[name]
        at = f"stages.{name}"
        run = COPY if run == "copy" else run
        if run in _NO_STEPS or (":" not in run and run not in COMMANDS and run not in stages()):
            choices = [one for one in (*stages(), "copy") if one not in _NO_STEPS]
            raise tree.error(
                f"{at}.run", f"there is no stage {run!r} to run{suggestion(run, choices)}. `sweet-rl --help` lists "
                "them; a function of your own is written module:FUNCTION.",
            )  # fmt: skip
        try:
            function = function_of(run)
        except UsageError as error:
            raise tree.error(f"{at}.run", str(error)) from None
        flags = stage_flags(function)
        known = {each: one.name for one in flags for each in one.names}
        many = next((one.name for one in flags if one.many), None)
        words, texts = list[str](), dict[str, str]()
        for given, value in self.flags[name].items():
            parts = value if isinstance(value, list) else [value]
            if known.get(given, given) == many:
                words += parts
            elif value is not None:
                texts[known.get(given, given)] = ",".join(parts)
        if "save_path" in texts and "ckpt_path" in known and "ckpt_path" not in self.flags[name]:
            texts["ckpt_path"] = f"{texts['save_path']}.checkpoints"
        try:  # further flags, as on a command line, and the words that begin it
            further, launcher = (shlex.split(stage.get(key) or "") for key in ("args", "launcher"))
        except ValueError as error:
            raise tree.error(f"{at}.args", f"a quote is open ({error}).") from None
        arguments = [*(f"--{flag}={text}" for flag, text in texts.items()), *words, *further]
        try:
            # another parser's flags are rewritten
            rewrite: Callable[..., list[str]] = getattr(function, "rewrite_arguments", list)
            typed = parse.read(function, rewrite(arguments))
            values = values_of(function, typed)
            single = {one.name: one for one in (*flags, *joined_flags(function, values))}
            for given, value in values.items():
                single[given].check(value)
            if settings := getattr(function, "build", None):
                settings(**values)
        except SweetRLError as error:  # with the line of the flag that it is about, or else of the stage
            about = [
                part
                for flag in re.findall(r"--(\w+)", str(error))
                for part in (f"{at}.with.{flag}", f"defaults.{run}.{flag}")
            ]
            place = next((part for part in about if part.replace("-", "_") in tree.places), at)
            raise tree.error(place, f"stage {name} ({run}): {error}") from None
        needs = set[str]().union(*map(self.needs_of, (self._raw[name], self._raw["stages"][name])))
        said = stage.get("needs") or []
        for one in [said] if isinstance(said, str) else said:
            if one not in self._full:
                raise tree.error(f"{at}.needs", str(no_such("stage", one, self._stages)))
            needs.add(self._full[one])
        front, values = parse.in_front(function, typed.words, values)
        return Step(self._full[name], run, front, values, tuple(sorted(needs)), tuple(launcher))


@group("What is run")
class RunFlags(Jobs):
    file: str = flag(
        REQUIRED,
        "pipeline: a YAML file (docs/pipelines.md), or several, separated by commas, of which later ones override earlier ones.",
    )
    dry_run: bool = flag(
        False,
        "run nothing: show the command of every stage, whether it would run and why, and what it needs approximately.",
    )
    only: str = flag("", "run only these stages: names separated by commas.")
    until: str = flag("", "run these stages and everything they depend on, then stop.")
    preflight: Literal["yes", "only", "no"] = flag(
        "yes",
        "yes: check first whether the stages to run have what they need; only: check and run nothing; no: start at once.",
    )


@recorded("run", reads=("file",))
@stage("file", defaults={"jobs": 1}, helps={"jobs": "independent stages that run at once."})
def run(flags: RunFlags, /, *set: str) -> None:
    """Run a pipeline: the stages of a YAML file, each once; skip what is done, and resume where it stopped.

    A stage is done if its last run succeeded with its present settings and the same input files (by digest).
    After a change of a setting or an input, the stage and everything that depends on it run again; earlier
    outputs are moved aside. The only state is the record (run.json) that every stage writes.

    sweet-rl run configs/sweet/embedded.yaml
    sweet-rl run configs/sweet/llama8b.yaml --dry_run --set values.human_host=gpu7 --set folder=outputs/mine

    Args:
        set: --set NAME=VALUE overrides a value of the file: values.model=/models/mine, folder=outputs/run2, iterations=2,
            stages.critic.with.beta=0.2.
    """
    from sweet_rl.pipelines.preflight import look  # late, for a quick --help
    from sweet_rl.pipelines.running import plan, run_steps

    tree = functools.reduce(laid_over, map(read_file, listed(flags.file)))
    for setting in set:
        override(tree, setting)
    pipeline = build(tree)
    if flags.only and flags.until:
        raise UsageError("--only and --until exclude each other.")
    steps = pipeline.chosen(only=listed(flags.only), until=listed(flags.until))
    to_run, lines = plan(steps, pipeline.folder)
    if flags.dry_run:
        print(*lines, sep="\n")
        return
    if flags.preflight != "no" and to_run:
        wrong = 0
        for finding in look(to_run, pipeline.folder, pipeline.steps):
            print(finding, flush=True)
            wrong += finding.level == "WRONG"
        if wrong:
            raise UsageError(
                f"The run lacks {wrong} of the things that it needs (see above); nothing was started. "
                "--preflight no starts anyway."
            )
    if flags.preflight == "only":
        return
    alone = shutil.which("nvidia-smi") is None and not any(step.launcher for step in steps)
    run_steps(steps, pipeline.folder, jobs=flags.jobs, fresh=not alone)
    print(f"Done: {len(steps)} stages; what they made is in {pipeline.folder}")


def _sets(arguments: Sequence[str]) -> list[str]:
    """`--set NAME=VALUE`, as often as it is given, moved behind all other words."""
    rest, settings, left = list[str](), list[str](), list(arguments)
    while left:
        word = left.pop(0)
        if word == "--set" and not left:
            raise UsageError("--set needs NAME=VALUE.")
        if word == "--set" or word.startswith("--set="):
            settings.append(left.pop(0) if word == "--set" else word.removeprefix("--set="))
        else:
            rest.append(word)
    if settings and rest and rest[-1].replace("-", "_") == "__dry_run":
        rest[-1] += "=true"  # what follows is not its value
    return [*rest, *settings]


run.rewrite_arguments = _sets  # type: ignore[attr-defined]
