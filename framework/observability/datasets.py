"""The names of sources and tables as OpenLineage's specification has them.

https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from framework.config.sources import Source

_SCHEMES = {"s3a": "s3", "s3n": "s3"}


class Dataset(NamedTuple):
    """A dataset: its namespace and its name in it."""

    namespace: str
    name: str


def inputs_of(sources: Mapping[str, Source], topics: Mapping[str, Iterable[str]]) -> list[Dataset]:
    """What the sources read, each once.

    A source with a pattern has the topics that it was seen to read, by source.
    """
    found: dict[Dataset, None] = {}
    for name, source in sources.items():
        if source.kafka is not None:
            broker = _broker(source.kafka.bootstrap_servers)
            names = source.kafka.topics or tuple(topics.get(name, ()))
            found |= dict.fromkeys(Dataset(f"kafka://{broker}", topic) for topic in names)
        else:
            found[dataset_of(source.files or source.table or "")] = None
    return list(found)


def dataset_of(place: str) -> Dataset:
    """The dataset at a path, at a URL, or with a name in the catalog."""
    if "/" not in place:
        return Dataset("databricks", place.replace("`", ""))
    scheme, separator, _ = place.partition("://")
    if not separator:
        path = place.removeprefix("dbfs:").removeprefix("file:")
        return Dataset("dbfs" if place.startswith("dbfs:") else "file", path)
    parts = urlsplit(place)
    login, _, host = parts.netloc.rpartition("@")
    # a container stands before the host of some stores, a password is never shown
    authority = parts.netloc if login and ":" not in login else host
    if scheme == "file":
        return Dataset("file", parts.path)
    return Dataset(f"{_SCHEMES.get(scheme, scheme)}://{authority}", parts.path.strip("/") or "/")


def _broker(servers: str) -> str:
    """The first broker, `host:port`, without a login."""
    return servers.split(",")[0].strip().rpartition("://")[2].rpartition("@")[2]
