"""Write preference pairs as data sets that TRL and OpenRLHF train on. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("export_pairs")
