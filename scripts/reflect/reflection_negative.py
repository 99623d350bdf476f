"""AutoExplore: let a teacher do tasks aloud, also from wrong files. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect reflection_negative")
