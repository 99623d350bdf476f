"""A model server in a thread of the test, which answers as a function says."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def said(content, reason="stop", **message):
    """The body of a chat completion."""
    message = {"role": "assistant", "content": content, **message}
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}


@contextmanager
def model_server(answer):
    """Yields the base URL and all that it was asked, as (headers, body).

    Args:
        answer: is given a request's body, and gives the reply's, or a status and the reply's.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def reply(self, status, body):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.reply(200, {"object": "list", "data": [{"id": "m", "owned_by": "somebody"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((dict(self.headers), body))
            found = answer(body)
            self.reply(*(found if isinstance(found, tuple) else (200, found)))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
