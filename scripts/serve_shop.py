"""Serve the embedded shop: a small WebShop that needs no data and no download. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("serve_shop")
