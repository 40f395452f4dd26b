"""Servers on this machine that take what a run tells other systems."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    """What a server was sent: the path and body of each request, and their headers."""

    address: str = ""
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on this machine with these answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # it looks often whether it shall end, or each test would wait half a second for it
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def receiver(*answers: int, silence: threading.Event | None = None) -> Iterator[Received]:
    """A server that answers with these codes, the last one for all further requests; 200 without any.

    With `silence` it says nothing until the event is set.
    """
    found = Received()
    left = list(answers or (200,))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append((self.path, body))
            found.headers.append(dict(self.headers.items()))
            if silence is not None:
                silence.wait(30)
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with served(Handler) as found.address:
        try:
            yield found
        finally:
            if silence is not None:
                silence.set()


def closed_address() -> str:
    """An address of this machine at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
