"""The texts of errors that stop a source of files."""

from __future__ import annotations

from dataclasses import replace

from bronze.files.errors import file_rewritten, file_too_large, file_vanished
from bronze.files.listing import ListedFile
from silver.values.sequence import name_part

FILE = ListedFile("a.jsonl", "/landing/a.jsonl", 10, 5)


def test_a_folder_that_was_copied_without_its_times_is_told_once_with_its_remedy() -> None:
    error = file_rewritten(FILE, "orders", 999, has_size=True)
    assert (error.condition, error.where) == ("FILE_CHANGED", "source orders, /landing/a.jsonl")
    assert error.found == (
        "1,000 files that have another modification time than when the messages landed, and the same size; "
        "most likely the folder was copied without the times of its files"
    )
    assert "`cp -p`" in error.action


def test_a_file_of_another_size_is_no_copy() -> None:
    error = file_rewritten(FILE, "orders", has_size=False)
    assert error.found == "1 file that has another size or modification time than when the messages landed"
    assert "copied" not in error.found + error.action


def test_a_file_that_grew_gets_a_name_that_orders_its_new_lines_behind_the_old_ones() -> None:
    """At one time the path decides. Under a name before the old one the new lines would count as older."""
    error = file_rewritten(FILE, "orders", has_size=False)
    assert "a name behind its old one (`orders-2.log` for `orders.log`)" in error.action
    assert name_part("orders-2.log") > name_part("orders.log") > name_part("orders (2).log")


def test_what_stands_in_for_a_lost_file_is_a_file_that_the_listing_has() -> None:
    far = replace(FILE, path="s3://bucket/a.jsonl")
    packed = replace(far, file="a.gz")
    assert "put it back, or an empty file if" in file_vanished(FILE, "orders").action
    assert "put it back, or a file with one line feed if" in file_vanished(far, "orders").action
    assert "put the output of `gzip < /dev/null` in its place" in file_too_large(packed, "orders", 1).action
