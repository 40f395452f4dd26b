"""`init`: from a folder of messages to a configuration that can be read, and runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.config.model import load_config
from framework.demo import feeds
from framework.errors import ConfigurationError
from framework.pipeline.layer import installed_layers

FORMATS = [row["name"] for layer in installed_layers() for row in layer.formats()]
OPTIONS = {name: model for layer in installed_layers() for name, model in layer.options().items()}


def land(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder / "feed.jsonl").write_text(feeds.sample(name) or "")


def test_a_folder_of_each_format_becomes_a_source_that_the_configuration_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FORMATS:
        land(Path("landing") / name, name)
    assert main(["init", "--from", "landing"]) == 0
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert {name: source.format for name, source in config.sources.items()} == {
        name: name for name in FORMATS
    }
    assert {name: source.files for name, source in config.sources.items()} == {
        n: str(tmp_path / "landing" / n) for n in FORMATS
    }
    assert config.sources["arcion"].layout == "kcat"
    assert config.sources["oms_default"].layout == "lines"


def test_a_table_without_a_key_is_named_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("prices"), "datahub_tuple")
    assert main(["init", "--from", "prices/feed.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["append_only"] == ["prices.price"]
    text = Path("mainstem.yml").read_text()
    assert (
        load_config("mainstem.yml", formats=OPTIONS).settings("feed", "prices", None, "price").keys is None
    ), "as it stands it is append-only"
    assert "candidates, unique and never null in the 6 rows of the sample: [sku], [price]" in text
    followed = uncommented(text)
    Path("mainstem.yml").write_text(followed)
    with pytest.raises(ConfigurationError) as refused:
        load_config("mainstem.yml", formats=OPTIONS)
    assert (refused.value.condition, refused.value.where.partition("tables")[2]) == (
        "CONFIG_BAD_VALUE",
        "[0].keys (line 18, column 5)",
    )
    assert "choose the key" in refused.value.action
    Path("mainstem.yml").write_text(followed.replace('["<choose>"]', "[sku]"))
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert config.settings("feed", "prices", None, "price").keys == ("sku",)
    assert [rule.kind for rule in config.quality.rules] == ["not_null"]


def uncommented(text: str) -> str:
    """The file with its tables' block, as somebody has it who follows the proposal."""
    at = text.index("# tables:")
    return text[:at] + text[at:].replace("\n# ", "\n").removeprefix("# ")


def tuples(rows: list[dict[str, Any]]) -> str:
    head = {
        "_operation_type_": "I",
        "_before_image_": "N",
        "_after_image_": "Y",
        "_source_table_": "line",
        "_excute_time_": 1,
    }
    return "".join(json.dumps({"_sequence_id_": n, **head, **row}) + "\n" for n, row in enumerate(rows, 1))


def test_the_first_column_is_no_key_where_its_values_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/feed.jsonl").write_text(tuples([{"kind": "a", "o": o, "n": n} for o in (1, 2) for n in (1, 2)]))
    assert main(["init", "--from", "in"]) == 0
    text = Path("mainstem.yml").read_text()
    assert "the 4 rows of the sample: [o, n]\n" in text
    assert "keys: [kind]" not in text


def test_a_feed_whose_rows_are_equal_has_no_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/feed.jsonl").write_text(tuples([{"o": 1, "n": 1}, {"o": 1, "n": 1}]))
    assert main(["init", "--from", "in"]) == 0
    assert "the 2 rows of the sample: none, alone or in pairs\n" in Path("mainstem.yml").read_text()


def test_folders_that_are_left_out_are_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("in/a"), "datahub_blob")
    land(Path("in/b"), "maxwell")
    for name, text in (("html", "<html>\n"), ("pretty", json.dumps({"a": 1}, indent=1)), ("empty", "")):
        Path("in", name).mkdir()
        Path("in", name, "feed.jsonl").write_text(text)
    almost = {
        name: value
        for name, value in json.loads((feeds.sample("canal") or "").splitlines()[0]).items()
        if name != "es"
    }
    Path("in/canal").mkdir()
    Path("in/canal/feed.jsonl").write_text(json.dumps(almost))
    assert main(["init", "--from", "in"]) == 0
    shown, text = capsys.readouterr().out, Path("mainstem.yml").read_text()
    for words in (
        "left out: in/html: no line of it fits a format (not_json)",
        "left out: in/pretty: JSON written over several lines",
        "left out: in/empty: no message in it",
        "left out: in/canal: looks like canal; es is missing",
    ):
        assert words in shown
        assert f"  # {words}" in text
    assert sorted(load_config("mainstem.yml", formats=OPTIONS).sources) == ["a", "b"]


def test_a_folder_in_which_nothing_fits_is_left_out_beside_one_of_a_single_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("in/a"), "maxwell")
    Path("in/logs").mkdir()
    Path("in/logs/x.log").write_text("<html>\n")
    assert main(["init", "--from", "in"]) == 0
    assert "left out: in/logs: no line of it fits a format (not_json)" in capsys.readouterr().out
    sources = load_config("mainstem.yml", formats=OPTIONS).sources
    assert {name: source.files for name, source in sources.items()} == {"a": str(tmp_path / "in" / "a")}


def test_a_folder_below_a_source_in_which_nothing_fits_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("2024-01", "2024-02"):  # folders of one table are one source
        land(tmp_path / "in" / part, "maxwell")
    (tmp_path / "in" / "logs").mkdir()
    (tmp_path / "in" / "logs" / "x.log").write_text("<html>\n")
    assert main(["init", "--from", str(tmp_path / "in"), "-c", str(tmp_path / "mainstem.yml")]) == 0
    assert (
        f"{tmp_path}/in/logs is part of the source in, and nothing in it fits a format"
        in capsys.readouterr().out
    )


def test_a_table_of_two_sources_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("in/a"), "canal")
    land(Path("in/b"), "maxwell")
    land(Path("in/c"), "canal")
    assert main(["init", "--from", "in", "--json"]) == 0
    shared = json.loads(capsys.readouterr().out)["shared"]
    assert shared
    assert all(set(names) >= {"a", "c"} for names in shared.values())
    assert "is in the feeds of a and c" in Path("mainstem.yml").read_text()


def test_before_images_as_columns_of_dms_are_proposed_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    metadata = {
        "timestamp": "2024-07-29T00:58:44Z",
        "record-type": "data",
        "operation": "insert",
        "schema-name": "p",
        "table-name": "t",
    }
    Path("in/feed.jsonl").write_text(json.dumps({"data": {"id": 1, "BI_id": None}, "metadata": metadata}))
    assert main(["init", "--from", "in"]) == 0
    assert (
        load_config("mainstem.yml", formats=OPTIONS).sources["in"].options.model_dump()["before_image_prefix"]
        == "BI_"
    )


@pytest.mark.parametrize("has_schema", [False, True])
def test_the_modes_of_a_connector_are_asked_for_where_its_messages_do_not_say_them(
    has_schema: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    source = {
        "connector": "mysql",
        "db": "shop",
        "table": "t",
        "file": "bin.1",
        "pos": 4,
        "row": 0,
        "ts_ms": 1709200800000,
    }
    payload = {"op": "c", "before": None, "after": {"id": 1}, "source": source}
    image = {"type": "struct", "field": "after", "fields": [{"type": "int32", "field": "id"}]}
    value = {"schema": {"type": "struct", "fields": [image]}, "payload": payload} if has_schema else payload
    Path("in/feed.jsonl").write_text(json.dumps(value))
    assert main(["init", "--from", "in"]) == 0
    text = Path("mainstem.yml").read_text()
    asked = [
        f"    # {name}: {modes}"
        for name, modes in (("decimals", "base64 | text | number"), ("binary", "base64 | base64url | hex"))
    ]
    assert [line in text.splitlines() for line in asked] == [not has_schema, not has_schema]
    for line, chosen in zip(asked, ("    decimals: text", "    binary: hex"), strict=True):
        text = text.replace(line, chosen)
    Path("mainstem.yml").write_text(text)
    options = load_config("mainstem.yml", formats=OPTIONS).sources["in"].options.model_dump()
    assert (options["decimals"], options["binary"]) == ((None, None) if has_schema else ("text", "hex"))


def test_formats_mixed_in_one_folder_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(tmp_path / "mixed", "datahub_blob")
    (tmp_path / "mixed" / "other.jsonl").write_text(feeds.sample("maxwell") or "")
    file = tmp_path / "mainstem.yml"
    assert main(["init", "--from", str(tmp_path / "mixed"), "-c", str(file)]) == 1
    assert "FORMATS_MIXED" in capsys.readouterr().err
    assert not file.exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text("mine")
    assert main(["init", "-c", str(file)]) == 2
    assert "CONFIG_EXISTS" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_without_messages_a_configuration_to_be_filled_in_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "2 shops!" / "mainstem.yml"
    file.parent.mkdir()
    assert main(["init", "-c", str(file)]) == 0
    assert load_config(str(file), formats=OPTIONS).pipeline == "pipeline"


def test_names_of_folders_become_names_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("in: a #1/数量", "in: a #1/Orders.v2", "in: a #1/orders-v2"):
        land(Path(place), "maxwell" if "数" in place else "datahub_blob")
    assert main(["init", "--from", "."]) == 0
    sources = load_config("mainstem.yml", formats=OPTIONS).sources
    assert sorted(sources) == ["feed", "orders_v2", "orders_v2_2"]
    assert sources["feed"].files == str(tmp_path / "in: a #1" / "数量")


@pytest.mark.parametrize("name", ["no", "on", "null", "true"])
def test_names_that_are_words_of_yaml_stay_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project = tmp_path / name
    land(project / "2024" / name, "maxwell")
    land(project / "2024" / "orders", "datahub_blob")
    monkeypatch.chdir(project)
    assert main(["init", "--from", f"2024/{name}"]) == 0
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert (config.pipeline, list(config.sources)) == (name, [name])
    assert config.sources[name].files == str(project / "2024" / name)


def test_the_lakehouse_is_in_no_folder_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("lakehouse"), "maxwell")
    assert main(["init", "--from", "lakehouse"]) == 0
    assert load_config("mainstem.yml", formats=OPTIONS).lakehouse == str(tmp_path / "lakehouse_2")


def test_a_configuration_that_would_be_read_as_messages_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be in quarantine, and stop its source once somebody changes it."""
    land(tmp_path / "shop", "maxwell")
    monkeypatch.chdir(tmp_path / "shop")
    assert main(["init", "--from", "."]) == 2
    assert "-c ../mainstem.yml" in capsys.readouterr().err
    assert [file.name for file in Path().iterdir()] == ["feed.jsonl"]
    assert main(["init", "--from", ".", "-c", "../mainstem.yml"]) == 0
    assert main(["validate", "-c", "../mainstem.yml"]) == 0


def test_links_to_folders_are_no_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("landing/orders"), "debezium")
    land(Path("landing/prices"), "datahub_tuple")
    land(Path("secret"), "maxwell")
    Path("landing/l0").symlink_to(tmp_path / "landing")
    Path("landing/l1").symlink_to(tmp_path)
    Path("landing/zlink").symlink_to(tmp_path / "secret")
    assert main(["init", "--from", "landing"]) == 0
    assert "left out: landing: links are not followed: l0, l1, zlink" in capsys.readouterr().out
    assert list(load_config("mainstem.yml", formats=OPTIONS).sources) == ["orders", "prices"]


def test_folders_deep_inside_one_another_are_looked_at_to_a_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may write to a landing folder can make folders a thousand deep."""
    monkeypatch.chdir(tmp_path)
    deep = Path("landing")
    deep.mkdir()
    for _ in range(1_000):
        deep = deep / "d"
        deep.mkdir()
    for name in ("canal", "maxwell"):
        (deep / name).mkdir()
        (deep / name / "feed.jsonl").write_text(feeds.sample(name) or "")
    land(Path("landing/orders"), "dms")
    try:
        assert main(["init", "--from", "landing"]) == 0
    finally:
        subprocess.run(["rm", "-rf", "landing/d"], check=True)  # Python's own way is recursive
    assert "more than 16 folders deep" in capsys.readouterr().out
    assert list(load_config("mainstem.yml", formats=OPTIONS).sources) == ["orders"]


def test_links_to_files_do_not_mix_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("landing/orders"), "debezium")
    land(Path("landing/prices"), "datahub_tuple")
    Path("landing/again.jsonl").symlink_to(tmp_path / "landing/orders/feed.jsonl")
    assert main(["init", "--from", "landing"]) == 0
    assert list(load_config("mainstem.yml", formats=OPTIONS).sources) == ["orders", "prices"]
