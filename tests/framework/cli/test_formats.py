from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.commands.reference import formats
from framework.demo import feeds as demonstration
from framework.pipeline.layer import installed_layers
from framework.text.tables import markdown
from silver.formats import FORMATS

PAGE = Path(__file__).parents[3] / "docs/formats.md"


def rows() -> list[dict[str, str]]:
    return [dict(row) for layer in installed_layers() for row in layer.formats()]


def test_the_page_on_formats_holds_their_table() -> None:
    table = "\n".join(markdown(formats.HEADS, formats.format_cells(rows())))
    text = PAGE.read_text(encoding="utf-8")
    assert formats.between_markers(text, table) == text, "run `mainstem formats --into docs/formats.md`"


def test_the_table_names_every_format_and_marks_orders_that_are_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(FORMATS)
    for line in lines[1:]:
        assert ("(a time)" in line) is not FORMATS[line.split()[0]].positions_are_unique
    assert main(["formats", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["formats"]] == list(FORMATS)


@pytest.mark.parametrize(
    "name",
    sorted(
        set(FORMATS) & {path.stem for path in (Path(demonstration.__file__).parent / "samples").iterdir()}
    ),
)
def test_a_sample_is_printed_for_a_format(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--sample", name]) == 0
    assert capsys.readouterr().out == demonstration.sample(name)


def test_an_unknown_sample_names_the_nearest_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--sample", "datahub_blub"]) == 2
    assert "did you mean datahub_blob?" in capsys.readouterr().err


def test_the_table_is_written_between_markers_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- formats -->\nold\n<!-- /formats -->\nafter\n")
    assert main(["formats", "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- formats -->\n| name |")
    assert text.endswith("|\n<!-- /formats -->\nafter\n")
    page.write_text("no markers")
    assert main(["formats", "--into", str(page)]) == 2
    assert "NO_MARKERS" in capsys.readouterr().err


def test_detect_names_a_feed_and_leaves_with_the_contracts_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = tmp_path / "feed.jsonl"
    feed.write_text(str(demonstration.sample("oms_canal")) + "not a message\n")
    assert main(["detect", str(feed)]) == 0
    shown = capsys.readouterr().out
    assert "oms_canal: 8 messages, confidence 0.89" in shown
    assert "billing.payment  id" in shown
    assert "feed.jsonl:9  not_json" in shown
    assert main(["detect", str(feed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formats"][0]["name"] == "oms_canal"
    feed.write_text("nothing known\n")
    assert main(["detect", str(feed)]) == 1
    assert main(["detect", str(tmp_path / "none")]) == 2


def test_detect_says_what_stands_for_a_database_that_the_feed_does_not_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = tmp_path / "feed.jsonl"
    feed.write_text(str(demonstration.sample("datahub_tuple")))
    assert main(["detect", str(feed)]) == 0
    shown = capsys.readouterr().out
    assert "  <source>.price  " in shown
    assert "<source>: the feed names no database; the name of the source" in shown


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), "there is no file to read (files named `.…`, `_…` or `….tmp` are ignored)"),
        ((".hidden", "part.tmp"), "there is no file to read (files named `.…`, `_…` or `….tmp` are ignored)"),
        (("a.jsonl", "b.jsonl"), "2 files without a message"),
    ],
)
def test_detect_says_that_a_folder_has_no_file_or_no_message(
    files: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert main(["detect", str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{tmp_path}: {said}\n"


def test_init_says_that_a_folder_has_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "landing").mkdir()
    assert main(["init", "-c", f"{tmp_path}/mainstem.yml", "--from", f"{tmp_path}/landing"]) == 1
    error = capsys.readouterr().err
    assert "error: NOTHING_RECOGNISED\n" in error
    assert "there is no file in it (files named `.…`, `_…` or `….tmp` are ignored)" in error
    assert not (tmp_path / "mainstem.yml").exists()


def test_detect_says_what_a_file_without_a_message_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes('{"op":"c"}\n'.encode("utf-16"))
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04")
    assert main(["detect", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2 files without a message")
    assert ["iconv" in lines[1], "unzip" in lines[2]] == [True, True]


def test_detect_says_that_a_feed_is_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("oms_canal", "datahub_tuple"):
        (tmp_path / f"{name}.jsonl").write_text(str(demonstration.sample(name)))
    assert main(["detect", str(tmp_path)]) == 0
    assert "the feed is mixed" in capsys.readouterr().out
