"""The command: it says where it is, serves, stops when told to, and explains itself."""

import signal
import subprocess
import sys
import urllib.request

import pytest

from sweet_rl.mini.shop import READY, EmbeddedShop


def serve_shop(*flags):
    command = [sys.executable, "-m", "sweet_rl", "serve_shop", *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(stop):
    with serve_shop("--port", 0, "--products", 20, "--seed", 3) as process:
        line = process.stdout.readline()
        assert line.startswith(READY)
        url = line.removeprefix(READY).split(" ")[0]
        with urllib.request.urlopen(f"{url}/fixed_5", timeout=10) as response:
            assert response.read().decode() == EmbeddedShop(3, 20).get("/fixed_5")
        taken = serve_shop("--port", url.rsplit(":", 1)[1])
        assert "Cannot listen on 127.0.0.1" in taken.communicate(timeout=30)[1]
        assert taken.returncode == 1
        process.send_signal(stop)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == ""


def test_an_empty_shop_is_refused():
    process = serve_shop("--products", 0)
    assert process.communicate(timeout=30)[1] == "error: --products must be at least 1, got 0.\n"
