"""`detect` and `init` for topics: what arguments mean, and the draft that a sample gives."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bronze.files.peek import peek_messages
from framework.cli import main
from framework.cli.commands import detect as command
from framework.cli.commands.detect import TopicMessages
from framework.config.drafting.topics import topic_place
from framework.config.model import load_config
from framework.contracts.file_messages import FiledMessage, Sample
from framework.contracts.messages import RawMessage
from framework.demo import feeds
from framework.errors import ConfigurationError
from framework.pipeline.layer import installed_layers

OPTIONS = {name: model for layer in installed_layers() for name, model in layer.options().items()}


def test_names_are_topics_and_wildcards_are_a_pattern() -> None:
    assert topic_place("a:1", ["shop.a", "shop.b"]).written == {
        "bootstrap_servers": "a:1",
        "topics": ["shop.a", "shop.b"],
    }
    pattern = topic_place("a:1", ["shop.*", "crm.c?"]).kafka.topic_pattern
    assert pattern == r"shop\..*|crm\.c."
    assert re.fullmatch(pattern, "shop.orders")
    assert not re.fullmatch(pattern, "shopping")


def test_references_are_written_and_their_values_are_used() -> None:
    setting = "kafka.sasl.jaas.config=${env:LOGIN}"
    place = topic_place("a:1", ["t"], [setting, "kafka.security.protocol=SASL_SSL"], {"LOGIN": "hidden"})
    assert place.written["kafka.sasl.jaas.config"] == "${env:LOGIN}"
    assert place.kafka.options["kafka.sasl.jaas.config"] == "hidden"
    assert "hidden" not in f"{place}{place.written}"


@pytest.mark.parametrize("command", ["detect", "init"])
def test_a_broker_without_a_port_is_a_wrong_argument(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--kafka", "canary", "--topic", "x"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: WRONG_ARGUMENTS\n")
    assert "canary" not in told


@pytest.mark.parametrize(
    ("topics", "settings", "condition"),
    [
        ([r"shop\..*"], [], "BAD_TOPIC"),
        (["a,b"], [], "BAD_TOPIC"),
        ([""], [], "BAD_TOPIC"),
        (["t"], ["kafka.security.protocol"], "BAD_KAFKA_SETTING"),
        (["t"], ["=x"], "BAD_KAFKA_SETTING"),
        (["t"], ["security.protocol=SASL_SSL"], "BAD_KAFKA_SETTING"),
        (["t"], ["kafka.sasl.jaas.config=user and word"], "SECRET_IN_ARGUMENT"),
        (["t"], ["kafka.ssl.keystore.password=word"], "SECRET_IN_ARGUMENT"),
        (["t"], ["kafka.ssl.keystore.password=${env:NOT_THERE}"], "CONFIG_ENV_MISSING"),
    ],
)
def test_wrong_arguments_are_refused_and_show_no_secret(
    topics: list[str], settings: list[str], condition: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        topic_place("a:1", topics, settings, {})
    assert refused.value.condition == condition
    assert "word" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["detect"], "no PATH, and no --kafka"),
        (["detect", "in", "--kafka", "a:1", "--topic", "t"], "a PATH beside --kafka"),
        (["detect", "--kafka", "a:1"], "--kafka without --topic"),
        (["detect", "--topic", "t"], "--topic or --kafka-option without --kafka"),
        (["init", "--from", "in", "--kafka", "a:1", "--topic", "t"], "--from beside --kafka"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*words, *(("-c", f"{tmp_path}/m.yml") if words[0] == "init" else ())]) == 2
    assert f"error: WRONG_ARGUMENTS\n  found: {said}\n" in capsys.readouterr().err


def filed(topic: str, values: Sequence[bytes]) -> list[FiledMessage]:
    return [
        FiledMessage(topic, at, "kafka", RawMessage("", topic, 0, at, None, None, value))
        for at, value in enumerate(values)
    ]


def of_format(topic: str, name: str) -> list[FiledMessage]:
    """The messages of a sample feed, as a broker has them."""
    sample = Path(feeds.__file__).parent / "samples" / f"{name}.jsonl"
    return [replace(message, file=topic, layout="kafka") for message in peek_messages(sample)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[FiledMessage]:
    """The messages that a broker has; the reader of topics is tested in tests/bronze and tests/real."""
    messages: list[FiledMessage] = []

    def construct(self: TopicMessages, place: Any, *, is_json: bool) -> None:
        self._messages, self._sample = messages, Sample()
        self._detect = next(layer.detect for layer in installed_layers() if layer.detect is not None)

    monkeypatch.setattr(command.TopicMessages, "__init__", construct)
    monkeypatch.chdir(tmp_path)
    return messages


def test_topics_of_one_format_are_one_source_with_the_pattern(
    broker: list[FiledMessage], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker += of_format("shop.review", "canal") + of_format("shop.note", "canal")
    setting = "kafka.sasl.jaas.config=${env:LOGIN}"
    monkeypatch.setenv("LOGIN", "hidden")
    words = ["--kafka", "localhost:9092", "--topic", "shop.*", "--kafka-option", setting]
    assert main(["init", *words]) == 0
    assert "shop: localhost:9092 shop\\..* holds canal" in capsys.readouterr().out
    text = Path("mainstem.yml").read_text()
    assert "hidden" not in text
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert list(config.sources) == ["shop"]
    kafka = config.sources["shop"].kafka
    assert kafka is not None
    assert (kafka.bootstrap_servers, kafka.topic_pattern) == ("localhost:9092", r"shop\..*")
    assert kafka.options == {"kafka.sasl.jaas.config": "hidden"}


def test_topics_of_two_formats_are_two_sources_and_others_are_left_out(
    broker: list[FiledMessage], capsys: pytest.CaptureFixture[str]
) -> None:
    broker += of_format("shop.review", "canal") + of_format("erp.orders", "maxwell")
    broker += filed("shop.junk", [b"nothing known"])
    assert main(["init", "--kafka", "a:1", "--topic", "*", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [source["format"] for source in answer["sources"]] == ["maxwell", "canal"]
    assert answer["left_out"][0]["folder"] == "shop.junk"
    config = load_config("mainstem.yml", formats=OPTIONS)
    topics = {name: source.kafka.topics for name, source in config.sources.items() if source.kafka}
    assert topics == {"erp_orders": ("erp.orders",), "shop_review": ("shop.review",)}


def test_detect_names_topics_and_offsets(
    broker: list[FiledMessage], capsys: pytest.CaptureFixture[str]
) -> None:
    broker += of_format("shop.review", "canal") + filed("shop.junk", [b"nothing known"])
    assert main(["detect", "--kafka", "a:1", "--topic", "shop.*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a:1 shop.*: 2 topics, ")
    assert any(line.startswith("canal: ") for line in lines)
    assert "1 message fits no format: 1 not_json" in lines
    assert any(line.startswith("  shop.junk:0  not_json") for line in lines)


def test_topics_without_a_known_message_make_no_configuration(
    broker: list[FiledMessage], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--kafka", "a:1", "--topic", "t"]) == 1
    assert "error: NOTHING_RECOGNISED\n  found: no message\n  where: a:1 t\n" in capsys.readouterr().err
    broker += filed("t", [b"nothing known"])
    assert main(["init", "--kafka", "a:1", "--topic", "t"]) == 1
    assert "no line of it fits a format (not_json)" in capsys.readouterr().err
    assert main(["detect", "--kafka", "a:1", "--topic", "t", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kafka"], answer["topics"], answer["file_count"]) == ("a:1", ["t"], 1)
    assert not Path("mainstem.yml").exists()
