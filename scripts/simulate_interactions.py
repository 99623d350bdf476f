"""Let an agent and a simulated human talk over tasks; write the trajectories. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("simulate_interactions")
