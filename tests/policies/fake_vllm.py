"""Stands in for `python -m vllm.entrypoints.openai.api_server`: health, models, completions, and a child process.

Own flags, passed through like any argument: --pids FILE (pids of server and child are appended), --die WORDS (exit at
once with them), --never-healthy.
"""

import argparse
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("-m", dest="module")
for name in "model served-model-name host tensor-parallel-size data-parallel-size pids die".split():
    parser.add_argument(f"--{name}")
parser.add_argument("--port", type=int)
parser.add_argument("--never-healthy", action="store_true")
flags = parser.parse_args()
NAME = flags.served_model_name or flags.model


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/health":
            self.reply(503 if flags.never_healthy else 200, {})
        else:
            self.reply(200, {"data": [{"id": NAME, "owned_by": "vllm", "max_model_len": 512}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] != NAME:
            self.reply(404, {"error": {"message": f"The model `{body['model']}` does not exist."}})
            return
        if "kill yourself" in str(body["prompt"]):
            os._exit(7)
        choice = {"index": 0, "text": f"pid {os.getpid()}", "finish_reason": "stop", "logprobs": None}
        self.reply(200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if flags.die:
    sys.exit(flags.die)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
if flags.pids:
    with Path(flags.pids).open("a") as file:
        file.write(f"{os.getpid()} {child.pid}\n")
sys.stdout.write(" ".join(sys.argv) + "\n")
sys.stdout.flush()
ThreadingHTTPServer((flags.host, flags.port), Handler).serve_forever()
