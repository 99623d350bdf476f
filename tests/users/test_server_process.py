"""The simulator server as a process: it says where it is, ends politely, and says why it cannot start."""

import signal
import time
import urllib.request

import pytest

from sweet_rl.errors import ServiceError
from sweet_rl.users.server import start_server


def test_a_server_for_a_while():
    with start_server(latency_median_ms=1.5) as server:
        with urllib.request.urlopen(server.base_url + "/models") as response:
            assert b'"scripted"' in response.read()
        port = int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        words = rf"did not start: error: Cannot listen on 127.0.0.1, port {port}"
        with pytest.raises(ServiceError, match=words), start_server(port=port):
            pass
    assert server.process.returncode == 0


def test_ctrl_c_ends_it_although_a_request_is_held():
    with start_server(fault_rate=1.0, faults="timeout") as server:
        body = b'{"model": "echo", "messages": [{"role": "user", "content": "x"}]}'
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(
                urllib.request.Request(
                    server.base_url + "/chat/completions", body, {"Content-Type": "application/json"}
                ),
                timeout=0.2,
            )
        started = time.perf_counter()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=10) == 0
        assert time.perf_counter() - started < 5
