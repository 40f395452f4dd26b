"""Which headers of a message are ours: this depends on where the message landed, which no producer controls.

Headers from outside with one of our names get another name when they land. In messages of older releases,
which kept the name, they get it here.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.messages import (
    BAD_COORDINATES,
    OURS,
    TOO_LONG,
    RawMessage,
    foreign_name,
    topic_of_bad_line,
)
from framework.contracts.seed import SEED, TOPIC

Headers = Sequence[tuple[str, bytes | None]]


def is_about_us(headers: Headers) -> bool:
    """Whether a header has a name like ours."""
    return any(name.startswith(OURS) for name, _ in headers)


def trusted(message: RawMessage, file: str | None, line: int | None) -> Headers:
    """The headers of a message that landed from this line of this file.

    Those that only look like ours are renamed.

    A row of a dump has a file and no line. A line that is no message has the coordinates of its file. A
    forgotten message has nothing but its header: a producer that writes this header hides nothing.
    """
    is_of_file = file is not None and message.topic in (file, topic_of_bad_line(file))
    is_bare_line = is_of_file and line is not None and (message.partition, message.offset) == (0, line)
    is_ours = {
        SEED: file is not None and line is None and message.topic.startswith(TOPIC),
        FORGOTTEN: message.key is None and message.value is None and len(message.headers) == 1,
        TOO_LONG: is_bare_line and message.value is None,
        BAD_COORDINATES: is_bare_line,
    }
    return tuple(
        (name if is_ours.get(name, True) else foreign_name(name), value) for name, value in message.headers
    )
