"""The one list of commands; the console entry `sweet-rl`, with its help.

A stage is a function in `sweet_rl.commands`: its settings are the flags, its docstring is the help. Nothing heavy is
imported before the flags are known to be good, so that `--help` is quick.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from sweet_rl.cli.parse import flags_here, in_front, read, stage_flags, values_of
from sweet_rl.cli.stage import typed_here
from sweet_rl.errors import BudgetSpent, SweetRLError, UsageError, no_such, suggestion
from sweet_rl.flags import REQUIRED, Flag
from sweet_rl.openai_client import shown

COMMANDS = {
    "run": "pipelines.pipeline: Run a pipeline of stages from a YAML file; skip what is done, resume where it stopped.",
    "eval": "commands.eval: Evaluate an agent in one command: play the tasks, grade, report with intervals and costs.",
    "compare": "commands.runs: Compare runs task by task: differences with intervals, tasks that only one solves.",
    "simulate_interactions": "commands.simulate_interactions: Let an agent and a simulated human talk over tasks; write the trajectories.",
    "evaluate": "commands.evaluate: Grade trajectories of any world, with its grader or one of your own.",
    "evaluate_code": "commands.evaluate_code: Grade functions by hidden tests, in a sandbox; print the table; write preference pairs.",
    "evaluate_games": "commands.evaluate: Report trajectories of worlds that reward turns; write preference pairs.",
    "evaluate_html": "commands.evaluate_html: Grade web pages by their pictures; print the table; write preference pairs.",
    "train_dpo": "commands.train: Train a critic or a policy on preference pairs, by DPO.",
    "train_sft": "commands.train: Fine-tune a model on the agent's messages, in dialogues or in single turns.",
    "train_reward_model": "commands.train: Train a critic with a regression head on preference pairs.",
    "sample_best_of_n": "commands.sample_best_of_n: Sample candidates for every agent turn of graded trajectories.",
    "rank_best_of_n": "commands.rank_best_of_n: Score sampled candidates with a critic that sees the hidden solution.",
    "generate_random_pairs_from_ranks": "commands.generate_random_pairs_from_ranks: Draw preference pairs of "
    "single turns from scored candidates.",
    "export_pairs": "integrations.export: Write preference pairs as data sets that TRL and OpenRLHF train on.",
    "export": "integrations.export: Write trajectories as another tool's file (inspect_ai), or such a file as trajectories.",
    "export_credit": "integrations.export: Write dialogues as sampled tokens with the credit of each turn, for TRL and verl.",
    "picture_pairs": "commands.generate_random_pairs_from_ranks: Show the hidden page's picture in pairs of "
    "page dialogues, for a vision critic.",
    "credit measure": "credit.commands: Measure what each turn was worth: play on from before and after it.",
    "credit score": "credit.commands: Score every turn, or candidates for it, by a critic and other methods of credit assignment.",
    "credit compare": "credit.commands: Hold the scores of methods against what turns were worth.",
    "credit check": "credit.commands: Check a trainer's rows: masks, spans of turns, advantages, returns.",
    "run_bc": "commands.run_bc: Make the starting policy for online learning: it imitates demonstrations.",
    "run_archer": "commands.run_archer: Train a policy online, with ArCHer or another method: it plays and learns from its games.",
    "show_tokens": "commands.train: Show which tokens of a file training would learn.",
    "merge_adapters": "commands.models: Merge a LoRA adapter into the weights of its model.",
    "view": "commands.view: Look at the outputs of runs in a browser: dialogues, candidates, pairs, metrics, reports.",
    "visualize_dialogue_histories": "commands.view: Browse a trajectory file in a web browser, or export it as one page.",
    "visualize_design_dialogue_histories": "commands.view: Browse a trajectory file of pages; render and grade every draft.",
    "serve_simulator": "commands.worlds: Serve the scripted human behind OpenAI endpoints, with optional latency and faults.",
    "serve_credit": "integrations.serve: Serve a critic that returns the advantage of every turn of a dialogue.",
    "serve_env": "integrations.serve: Serve a world, with its human, as an OpenEnv environment: reset, step, state.",
    "play": "commands.worlds: Play a game in the terminal: see what an agent sees, get its rewards.",
    "generate_tasks": "commands.worlds: Write the tasks of a world's list as a ColBench file.",
    "fetch_model": "commands.models: Put a small pretrained model, SmolLM2-135M-Instruct, into the user's cache.",
    "make_policy": "learning.commands: Make a starting policy for any world: it imitates scripted agents, or a teacher.",
    "learn": "learning.commands: Improve a policy in any world by SWEET-RL, DPO, rejection fine-tuning, ArCHer or filtered cloning.",
    "make_embedded_agent": "mini.pretraining: Train the embedded agent of the mini benchmark from scratch.",
    "demo": "studies.demos: Run the whole pipeline on the embedded defaults: tasks, dialogues, grades, report.",
    "demo_archer": "studies.demos: Learn online on the embedded defaults: ArCHer and its baselines play a question game.",
    "demo_reflect": "studies.demos: Run Reflect-RL and its baselines from scratch, in one world or several.",
    "runs": "commands.runs: List what made the outputs in a folder: stage, time, inputs, cost.",
    "reflect evaluate_gpt": "commands.reflect_evaluate: Reflect-RL: evaluate an untrained model, with ReAct.",
    "reflect supervised_pretrain": "commands.reflect_train: Reflect-RL: fine-tune the policy or the reflection model on texts.",
    "reflect rl_finetune": "commands.reflect_train: Reflect-RL: train the policy online, with a frozen reflection model.",
    "reflect evaluate": "commands.reflect_evaluate: Reflect-RL: evaluate checkpoints on sampled episodes.",
    "reflect plot": "commands.reflect_evaluate: Reflect-RL: plot success, cost and loss of online runs.",
    "reflect ensemble_logs": "commands.reflect_evaluate: Reflect-RL: merge the logs of runs that continued each other.",
}
"""Name of a stage to the module (below `sweet_rl`) of the function of that name, and its summary; `stages` has those of worlds, too."""

_HELP: Final = frozenset({"-h", "--help", "--help-all", "--help_all"})
_EVERYWHERE: Final = "Common to many stages"
"""The last heading of a help: the flags below it are the same for every stage."""


def stages() -> dict[str, str]:
    """All stages with their summaries: ours, then those that only one world has (`World.stages`)."""
    from sweet_rl import worlds

    ours = {name: said.partition(": ")[2] for name, said in COMMANDS.items()}
    return ours | {name: stage.summary for name, stage in worlds.stages().items()}


def load(name: str) -> Callable[..., Any]:
    """Import a stage and return its function."""
    if name in COMMANDS:
        module, attribute = f"sweet_rl.{COMMANDS[name].partition(':')[0]}", name.rpartition(" ")[2]
    else:
        from sweet_rl import worlds

        of_worlds = worlds.stages()
        if name not in of_worlds:
            raise no_such("stage", name, [*COMMANDS, *of_worlds])
        module, _, attribute = of_worlds[name].place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def main() -> None:
    """The console entry: `sweet-rl <stage> --flags`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_overview())
        sys.exit(0)
    if arguments[0] == "--version":
        from sweet_rl import __version__

        print(__version__)
        sys.exit(0)
    if arguments[0] == "--completion":
        if (shell := "".join(arguments[1:])) not in SHELLS:
            _die(str(no_such("completion for the shell", shell, SHELLS)), 2)
        print(SHELLS[shell])
        sys.exit(0)
    if arguments[0] == "--complete":
        print("\n".join(candidates(os.environ.get("COMP_LINE", ""))))
        sys.exit(0)
    two = " ".join(arguments[:2]).replace("-", "_")
    known = COMMANDS if arguments[0].replace("-", "_") in COMMANDS or two in COMMANDS else stages()
    groups = {name.partition(" ")[0] for name in known if " " in name}
    words = 2 if arguments[0] in groups else 1
    if words == 2 and (len(arguments) == 1 or arguments[1] in {"-h", "--help", "help"}):
        print(_overview(arguments[0]))
        sys.exit(0)
    typed = " ".join(arguments[:words])
    name = typed.replace("-", "_")
    if name not in known:
        _die(f"there is no stage {typed!r}{suggestion(name, known)}. `sweet-rl --help` lists them all.", 2)
    run(name, arguments[words:])


def run(name: str, arguments: Sequence[str] | None = None) -> None:
    """Run the stage `name` with command-line arguments (default: those of this process), then exit.

    Exit status: 0 done, 1 an error that the message explains, 2 wrong flags, 3 stopped by its budget, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.argv[1:] = map(shown, sys.argv[1:])  # records and trackers keep them
    for stream in (sys.stdout, sys.stderr):  # an id or a model's words may hold what UTF-8 cannot
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = Inert(sys.stdout)  # bars draw on the other stream
    done: list[str] = []

    @atexit.register  # the first to be registered is the last to be called
    def skip_finalization() -> None:
        """FSDP2 keeps gloo's threads, and one that lets go of a tensor as Python finalizes aborts (pytorch#190489)."""
        if done and "WORLD_SIZE" in os.environ:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(0)

    configure_process()
    try:
        _run(name, load(name), arguments)
        done.append(name)
    except SweetRLError as error:
        _die(str(error), 3 if isinstance(error, BudgetSpent) else 1)
    except KeyboardInterrupt:
        _die("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; exit quietly
        sys.exit(141)


def _run(name: str, function: Callable[..., Any], arguments: list[str]) -> None:
    if not _HELP.isdisjoint(arguments):
        whole = not {"--help-all", "--help_all"}.isdisjoint(arguments)
        beside = [word for word in arguments if word not in _HELP]
        print(help_text(name, function, whole=whole, arguments=beside), flush=True)
        return
    rewrite = getattr(function, "rewrite_arguments", None)  # of a stage with the flags of another parser
    try:
        typed = read(function, arguments if rewrite is None else rewrite(arguments))
    except UsageError as error:
        _die(str(error), 2)
    words, values = in_front(function, typed.words, values_of(function, typed))
    typed_here.set(True)
    function(*words, **values)


def _overview(group: str = "") -> str:
    shown = {name: summary for name, summary in stages().items() if name.startswith(group)}
    width = max(map(len, shown))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in shown.items()]
    lines += ["", "sweet-rl STAGE --help explains a stage's flags, --help-all every one of them."]
    lines += ["sweet-rl --completion bash (or zsh, or fish) prints completion for a shell."]
    if sys.platform != "linux":
        limits = "grading code and rendering pages, which need Linux (docs/get_started.md)"
        lines.append(f"On {sys.platform} all works but {limits}.")
    return "\n".join(["usage: sweet-rl STAGE [--flags]", "", *lines])


_BASH: Final = "complete -o default -C 'sweet-rl --complete' sweet-rl"
SHELLS: Final = {
    "bash": _BASH,
    "zsh": f"autoload -U bashcompinit && bashcompinit && {_BASH}",
    "fish": "complete -c sweet-rl -a '(env COMP_LINE=(commandline -cp) sweet-rl --complete)'",
}  # what makes a shell ask for `candidates`


def candidates(line: str) -> list[str]:
    """What the last word of a line may become: a stage, one of its flags, or a choice of the flag before."""
    *before, last = line.split(" ")[1:] or [""]
    before = [word for word in before if word]
    name = next((one for one in stages() if before[: len(one.split())] == one.split()), None)
    if name is None:
        following = {
            one.split()[len(before)] for one in stages() if one.split()[:-1][: len(before)] == before
        }
        return sorted(word for word in following if word.startswith(last))
    flags = [one for one in stage_flags(load(name)) if one.shown != "never" and not one.many]
    asked = [one for one in flags if before[-1] == f"--{one.name}" and one.kind is not bool]
    found = (
        [str(choice) for one in asked for choice in one.choices]
        if asked
        else [f"--{one.name}" for one in flags]
    )
    return [word for word in found if word.startswith(last)]


def _die(message: str, status: int) -> NoReturn:
    print(f"error: {inert(shown(message))}", file=sys.stderr)
    sys.exit(status)


def help_text(
    name: str, function: Callable[..., Any], *, whole: bool = True, arguments: Sequence[str] = ()
) -> str:
    """The page of a stage, its flags in groups."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")[0]
    flags = [one for one in flags_here(function, arguments) if one.shown != "never"]
    shown = [one for one in flags if whole or one.shown == "help" or one.default is REQUIRED]
    first = [one for one in flags if one.positional and not one.many]
    words = [one.name.upper() if one.default is REQUIRED else f"[{one.name.upper()}]" for one in first]
    words += ["[--flag value ...]", *(f"[{one.name} ...]" for one in flags if one.many)]
    lines = [f"usage: sweet-rl {name} {' '.join(words)}", "", text, ""]
    for group in sorted(dict.fromkeys(one.group for one in shown), key=_EVERYWHERE.__eq__):
        lines.append(f"{group or 'Arguments'}:")
        for one in shown:
            lines += _explained(one) if one.group == group else ()
        lines.append("")
    options = getattr(function, "options", None)
    if options is not None:
        lines.append(f"Each {options.by} has flags of its own: --{options.by} NAME --help lists them.")
    if rest := len(flags) - len(shown):
        lines.append(f"{rest} more flag{'s' * (rest > 1)}, whose defaults suit most uses: --help-all.")
    return "\n".join(lines).rstrip()


def _explained(flag: Flag) -> Iterator[str]:
    """A flag with its values, its default, range and further names, and what it does."""
    words = textwrap.fill(
        flag.help, 100, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False
    )
    if flag.many:
        yield from (f"  {flag.name} ...", words)
        return
    values = "|".join(map(str, flag.choices)) or flag.kind.__name__.upper()
    default = flag.default
    notes = ["required" if default is REQUIRED else f"default {default}"]
    if default is True:
        notes = [f"default True; --no{flag.name} switches it off"]
    if default is None or default == "" or default is False:
        notes = []
    notes += [flag.range] if flag.range else []
    notes += [f"also --{alias}" for alias in flag.aliases]
    yield (
        f"  --{flag.name}"
        + ("" if flag.kind is bool else f" {values}")
        + (f"   ({'; '.join(notes)})" if notes else "")
    )
    yield words


# ---- the process that runs stages: its garbage and its memory; what its terminal may not obey

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of glibc's `malloc.h`."""

_KEPT: Final = 1 << 30
"""Bytes, freed at the end of the heap, that are kept for what comes next."""

_APART: Final = 1 << 25
"""Bytes from which on memory is the kernel's own and is given back at once: the most that glibc takes."""


def configure_process() -> None:
    """Spare the process what long work with torch does not need, on any system.

    torch and transformers make half a million objects that stay to the end: looking through them again and
    again, and once more at the exit, takes two seconds of every stage. What a step of training frees on a CPU
    the next one allocates: if the kernel has it in between, it is zeroed and mapped again, page by page.
    """
    gc.set_threshold(10_000, 20, 20)
    atexit.register(gc.freeze)
    by_hand = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    if sys.platform == "linux" and not any(map(os.environ.get, by_hand)):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _APART)
            mallopt(_TRIM_THRESHOLD, _KEPT)


_ESCAPED: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"
}


def inert(text: str) -> str:
    """The text with its control characters written out in hexadecimal; tabs and ends of lines stay."""
    return text.translate(_ESCAPED)


class Inert:
    """A stream of text that writes control characters out; all else is the stream's own.

    Attributes:
        stream: behind it, for what a stage draws itself.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write it; returns the number of characters of the text."""
        self.stream.write(inert(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def drawn_on(stream: Any) -> Any:
    """The stream that obeys sequences: for frames that a stage draws, whose texts it has made inert."""
    return stream.stream if isinstance(stream, Inert) else stream
