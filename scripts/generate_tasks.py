"""Write the tasks of a world's list as a ColBench file. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("generate_tasks")
