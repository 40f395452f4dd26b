import pickle

import pytest

from framework.errors import (
    ConfigurationError,
    MainstemError,
    brief,
    cause_of,
    in_a_line,
    located,
    nearest,
    place_of,
)


def test_message_has_three_parts() -> None:
    error = MainstemError("LEASE_HELD", found="a run", where="shop.lease", action="wait")

    assert str(error).splitlines() == ["LEASE_HELD", "  found: a run", "  where: shop.lease", "  do:    wait"]


def test_configuration_error_leaves_with_2() -> None:
    assert MainstemError("X", found="", where="", action="").exit_code == 1
    assert ConfigurationError("X", found="", where="", action="").exit_code == 2


def test_error_survives_the_way_back_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(ConfigurationError("X", found="a", where="b", action="c")))

    assert (type(error), error.condition, error.found, error.where, error.action) == (
        ConfigurationError,
        "X",
        "a",
        "b",
        "c",
    )


def test_nearest_name_ignores_case_and_gives_none_for_strangers() -> None:
    assert nearest("Historry", ["history", "keys"]) == "history"
    assert nearest("xyz", ["history", "keys"]) is None


def test_an_error_in_brief_is_its_three_parts_or_its_first_line() -> None:
    error = MainstemError("X", found="a", where="b", action="c")

    assert brief(error) == str(error)
    assert brief(ValueError("first\nsecond")) == "ValueError: first"
    assert brief(ValueError("x" * 600)) == "ValueError: " + "x" * 500
    assert brief(ValueError()) == "ValueError"


def test_the_innermost_cause_of_a_jvm_error_is_its_line() -> None:
    text = (
        "An error occurred while calling o3.execute.\n: org.apache.spark.SparkException: aborted\n\tat a.b\n"
    )
    text += "Caused by: java.io.IOException: No space left\n\tat c"
    assert cause_of(Exception(text)) == "java.io.IOException: No space left"
    assert (
        cause_of(Exception("An error occurred while calling o3.load.\n: x.Gone: away\n\tat a.b"))
        == "x.Gone: away"
    )
    assert (cause_of(ValueError("one\ntwo")), cause_of(ValueError())) == ("one", "ValueError")


def test_the_cause_is_the_end_of_a_trace_that_came_as_text_else_the_first_line() -> None:
    trace = (
        "Traceback (most recent call last):\n  File 'job.py', line 3\n    1 / 0\nZeroDivisionError: "
        "division by zero\n SQLSTATE: 39000"
    )
    assert (
        cause_of(RuntimeError(f"[STREAM_FAILED] Found error inside foreachBatch Python process: {trace}"))
        == "ZeroDivisionError: division by zero"
    )
    assert cause_of(RuntimeError("no space left\nat line 3")) == "no space left"
    assert cause_of(RuntimeError()) == "RuntimeError"


def test_an_error_names_the_places_where_it_happened_from_outside_to_inside() -> None:
    with pytest.raises(KeyError) as raised, located("layer silver"), located("batch 7 (source erp)"):
        raise KeyError("colour")
    assert place_of(raised.value) == "layer silver, batch 7 (source erp)"
    assert brief(raised.value) == "KeyError: 'colour'"


def test_an_error_without_a_place_has_none() -> None:
    error = ValueError("a")
    error.add_note("of somebody else")
    assert place_of(error) is None


def test_an_error_beside_the_name_of_its_table_is_one_line() -> None:
    error = MainstemError("KEY_NEEDED", found="no  key", where="table shop.price", action="write `keys`")
    for text in (str(error), " ".join(str(error).split())):
        assert in_a_line(text) == "KEY_NEEDED: no key; do: write `keys`"
    assert in_a_line("2 rows\n met") == "2 rows met"
