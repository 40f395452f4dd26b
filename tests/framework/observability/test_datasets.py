"""The names of sources and tables in lineage."""

from __future__ import annotations

from typing import Any

import pytest

from framework.config.sources import Kafka, Source
from framework.observability.datasets import Dataset, dataset_of, inputs_of
from silver.formats import FORMATS


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/data/landing", Dataset("file", "/data/landing")),
        ("file:///data/landing", Dataset("file", "/data/landing")),
        ("s3://shop/raw/orders/", Dataset("s3://shop", "raw/orders")),
        ("s3a://shop", Dataset("s3://shop", "/")),
        ("gs://shop/raw", Dataset("gs://shop", "raw")),
        (
            "abfss://raw@shop.dfs.core.windows.net/a/b",
            Dataset("abfss://raw@shop.dfs.core.windows.net", "a/b"),
        ),
        ("hdfs://me:secret@node:8020/a", Dataset("hdfs://node:8020", "a")),
        ("dbfs:/landing", Dataset("dbfs", "/landing")),
        ("main.shop_gold.shop__orders", Dataset("databricks", "main.shop_gold.shop__orders")),
        ("`main`.`shop_gold`.`a b`", Dataset("databricks", "main.shop_gold.a b")),
    ],
)
def test_a_place_has_a_namespace_and_a_name(place: str, expected: Dataset) -> None:
    assert dataset_of(place) == expected


def source(name: str, **place: Any) -> Source:
    return Source(name=name, format="canal", options=FORMATS["canal"].options(), **place)


def test_a_topic_is_named_by_the_first_broker_without_a_login() -> None:
    topics = Kafka(
        bootstrap_servers="SASL_SSL://me:secret@b1:9092,b2:9092", topics=("shop.orders", "shop.item")
    )
    pattern = Kafka(bootstrap_servers="b1:9092", topic_pattern="shop\\..*")
    sources = {
        "a": source("a", kafka=topics),
        "b": source("b", kafka=pattern),
        "c": source("c", files="/landing"),
    }
    known = [Dataset("kafka://b1:9092", "shop.orders"), Dataset("kafka://b1:9092", "shop.item")]
    assert inputs_of(sources, {}) == [*known, Dataset("file", "/landing")]
    assert inputs_of(sources, {"b": ["shop.orders", "shop.price"]}) == [
        *known,
        Dataset("kafka://b1:9092", "shop.price"),
        Dataset("file", "/landing"),
    ]
