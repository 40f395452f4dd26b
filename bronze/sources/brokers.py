"""Whether a broker accepts connections: Spark's connector asks for minutes before it gives up."""

from __future__ import annotations

import socket
import time

PAUSES = (2.0, 5.0)
"""Seconds between the attempts: a broker may be starting again."""
_SECONDS = 10.0


def why_unreachable(servers: str) -> str | None:
    """Why none of the servers (`host:port`, with commas between) accepts a connection; None where one does.

    It knows nothing of logins: whoever listens there counts.
    """
    reason = None
    for pause in (*PAUSES, None):
        for server in servers.split(","):
            reason = _why_refused(server.strip())
            if reason is None:
                return None
        if pause is not None:
            time.sleep(pause)
    return reason


def _why_refused(server: str) -> str | None:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS):
            return None
    except ValueError:
        return None  # no address that this code knows: the connector decides
    except OSError as error:
        return error.strerror or str(error)
