"""Counts who uses a session: at the end it is stopped, or gets its settings back if it is somebody else's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from framework.spark.required_settings import require_settings
from framework.spark.tuning import own_settings, put_back

USES = threading.RLock()
"""Held while a session starts or ends: threads of one process share its session."""
_USE = "mainstem_use"


@dataclass
class _Use:
    """How a session is used.

    Attributes:
        stop: Stops the session; None for one that Mainstem has not started.
        users: How many use it now.
        former: The settings of somebody else's session that were changed, as they were before.
    """

    stop: Callable[[SparkSession], None] | None = None
    users: int = 0
    former: dict[str, str | None] = field(default_factory=dict)


def begin_use(session: SparkSession, stop: Callable[[SparkSession], None] | None = None) -> None:
    """Counts a user, who needs the required settings; the first one says how to stop a session of Mainstem's.

    The caller holds `USES`.
    """
    use: _Use = session.__dict__.setdefault(_USE, _Use(stop))
    if use.stop is None:
        own = {} if use.users else own_settings(session)
        use.former = {**require_settings(session), **own, **use.former}
    use.users += 1


def end_use(session: SparkSession) -> None:
    """Ends the use of a user; does nothing for a session without one. The caller holds `USES`."""
    use: _Use | None = session.__dict__.get(_USE)
    if use is None:
        return
    use.users -= 1
    if use.users:
        return
    del session.__dict__[_USE]
    if use.stop is not None:
        use.stop(session)
        return
    put_back(session, use.former)
