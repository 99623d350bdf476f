"""ALFWorld: let a teacher reflect on states of random household games. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect alfworld_reflection")
