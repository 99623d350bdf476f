"""Run the whole pipeline on the embedded defaults: tasks, dialogues, grades, report. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo")
