"""Serve the scripted human behind OpenAI endpoints, with optional latency and faults. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("serve_simulator")
