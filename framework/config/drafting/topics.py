"""Topics of a broker as the command line names them: checked as those of a configuration are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from framework.config.document import resolved_values
from framework.config.kafka_options import instead_of, is_reader_option
from framework.config.sources import Kafka
from framework.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PATTERN = re.compile(r"[A-Za-z0-9._*?-]+")
_SECRET = re.compile(r"jaas|passw|secret|token|credential|\.key$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Topics of a broker.

    Attributes:
        written: The `kafka:` of a source that reads them; references stand for secrets.
        kafka: The same with references replaced, not for messages.
        names: The topics as they were asked for.
    """

    written: Mapping[str, object]
    kafka: Kafka
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kafka.bootstrap_servers} {', '.join(self.names)}"

    def with_topics(self, topics: Sequence[str]) -> Mapping[str, object]:
        """The `kafka:` of a source that reads these topics by name."""
        others = {key: value for key, value in self.written.items() if key not in _CHOICES}
        return {**_head(others), "topics": list(topics), **_rest(others)}


_CHOICES = ("topics", "topic_pattern")


def _head(written: Mapping[str, object]) -> dict[str, object]:
    return {"bootstrap_servers": written["bootstrap_servers"]}


def _rest(written: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in written.items() if key != "bootstrap_servers"}


def topic_place(
    servers: str,
    topics: Sequence[str],
    settings: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> TopicPlace:
    """The topics that arguments name.

    Args:
        servers: The brokers, host:port, with commas between them.
        topics: Names of topics, with `*` and `?` as in `match` of a configuration.
        settings: Other keys of `kafka:` as KEY=VALUE; `${env:NAME}` stands for a value of the environment.
        environ: The environment.

    Raises:
        ConfigurationError: WRONG_ARGUMENTS, BAD_TOPIC, BAD_KAFKA_SETTING, SECRET_IN_ARGUMENT, or that of a
            reference.
    """
    for topic in topics:
        if not _PATTERN.fullmatch(topic):
            raise ConfigurationError(
                "BAD_TOPIC",
                found=repr(topic),
                where="--topic",
                action="write the name of a topic (letters, digits, '.', '_' and '-'), with * and ? for"
                " several topics",
            )
    others = dict(_setting(text) for text in settings)
    written = {"bootstrap_servers": servers, **_topics(topics), **others}
    values = resolved_values(written, environ, Path("--kafka-option"))
    try:
        return TopicPlace(written, Kafka.model_validate(values), tuple(topics))
    except ValidationError:  # its text has the values, which may be secrets
        raise ConfigurationError(
            "WRONG_ARGUMENTS",
            found="a broker without host or port",
            where="--kafka",
            action="write host:port for each broker, with commas between: --kafka localhost:9092",
        ) from None


def _topics(topics: Sequence[str]) -> dict[str, object]:
    if all(_NAME.fullmatch(topic) for topic in topics):
        return {"topics": list(topics)}
    return {"topic_pattern": "|".join(map(_regex, topics))}


def _regex(topic: str) -> str:
    """A name with wildcards as a regular expression that Java and Python read alike."""
    return "".join({"*": ".*", "?": ".", ".": r"\."}.get(character, character) for character in topic)


def _setting(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key or not value:
        raise ConfigurationError(
            "BAD_KAFKA_SETTING",
            found="a setting without a key or a value",
            where="--kafka-option",
            action="write KEY=VALUE, for instance kafka.security.protocol=SASL_SSL",
        )
    if not is_reader_option(key):
        raise ConfigurationError(
            "BAD_KAFKA_SETTING",
            found=f"the unknown setting '{key}'",
            where="--kafka-option",
            action=instead_of(key, ("--kafka", "--topic")),
        )
    if _SECRET.search(key) and "${" not in value:
        raise ConfigurationError(
            "SECRET_IN_ARGUMENT",
            found=f"a value of {key} that may be a secret",
            where="--kafka-option",
            action=f"put it into a variable of the environment, and write '{key}=${{env:NAME}}' in single"
            " quotes: the configuration then has the reference",
        )
    return key, value
