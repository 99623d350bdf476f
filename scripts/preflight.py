"""Look at what a pipeline needs before it begins: data, servers, disk, GPU memory. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("preflight")
