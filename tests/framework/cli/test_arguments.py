"""What the command line says about its commands, and about words that it does not know."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.app import LOOK, REPAIR, RUN, START, UPKEEP
from framework.cli.commands import doctor, maintain
from framework.cli.groups import upkeep
from framework.cli.options import Options, row_key
from framework.cli.parser import command_line, read_options
from framework.errors import ConfigurationError, located
from framework.text.row_trace import column_word, row_words, trace_command

COMMANDS = command_line().commands


@pytest.mark.parametrize(
    ("arguments", "found", "action"),
    [
        (["sttus"], "no command 'sttus'", "did you mean 'status'? allowed: alerts, dbt-sources, demo, "),
        (["run", "--through", "slver"], "'slver' is unknown", "did you mean 'silver'? allowed: bronze, "),
        (
            ["run", "--throgh", "gold"],
            "no option --throgh\n",
            "did you mean --through? `mainstem run",
        ),
        (["sql", "SELECT 1", "--limt=3"], "no option --limt\n", "did you mean --limit? "),
        (["status", "everything"], "(everything)\n", "`mainstem status --help` shows"),
        (["status", "--xyz"], "no option --xyz\n", "do:    `mainstem status --help` shows"),
        (
            ["trace"],
            "missing argument 'TABLE'\n",
            "for example `mainstem trace shop.orders id=17`; `mainstem trace --help` shows",
        ),
        (["seed", "shop.orders", "--from", "f"], "missing option '--position'\n", "`mainstem seed --help`"),
        (["sql", "SELECT 1", "--limit", "ten"], "invalid value for '--limit'", "`mainstem sql --help`"),
        (["status", "--env", "A=1,B-C=2"], "'B-C=' has no name and value", "write NAME=VALUE"),
        (
            ["--config", "x.yml", "run"],
            "no option --config\n",
            "behind the command: `mainstem COMMAND --config",
        ),
        (["-c", "x.yml", "run"], "no option -c\n", "behind the command: `mainstem COMMAND -c …`"),
        (["init", "--verbose"], "no option --verbose\n", "`mainstem init --help`"),
        (["formats", "--sample"], "'--sample' requires an argument\n", "`mainstem formats --help`"),
        (["dismiss", "--partition", "x"], "'--partition': not a whole number\n", "`mainstem dismiss --help`"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_nearest_one_and_the_help(
    arguments: list[str], found: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: WRONG_ARGUMENTS\n  found: ")
    assert found in error
    assert action in error


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mainstem {version('mainstem')}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: mainstem" in capsys.readouterr().out


def test_the_help_has_all_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    words = capsys.readouterr().out.split()
    groups = [words.index(name) for name in (START, RUN, LOOK, REPAIR, UPKEEP)]
    assert groups == sorted(groups)
    assert set(COMMANDS) <= set(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_shows_an_example_that_the_command_line_accepts(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([name, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    examples = [line for line in lines if line.startswith("mainstem ")]
    assert examples
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[1] == name
        assert isinstance(read_options(words[1:]), Options)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_leads_to_a_function_and_takes_the_configuration(name: str) -> None:
    needed = {"trace": ["t", "a=1"], "forget": ["t", "a=1"], "sql": ["q"], "detect": ["p"], "rebuild": ["t"]}
    words = needed.get(name, ["t", "--from", "f", "--position", "1"] if name == "seed" else [])
    options = read_options([name, *words, "-c", "other.yml", "--json", "--debug"])
    assert isinstance(options, Options)
    assert (options.config, options.json, options.debug) == ("other.yml", True, True)
    module, _, function = options.command.partition(":")
    assert callable(getattr(import_module(module), function))


def test_values_of_the_environment_are_pairs_and_reach_the_configuration() -> None:
    options = read_options(["status", "--env", "A=1,B=x=y", "--env", "C="])
    assert isinstance(options, Options)
    assert options.env == [("A", "1"), ("B", "x=y"), ("C", "")]
    options = read_options(["status", "--env", "A=a:9092,b:9092,B=2,C=x,y z"])
    assert isinstance(options, Options)
    assert options.env == [("A", "a:9092,b:9092"), ("B", "2"), ("C", "x,y z")]


def test_files_stay_as_long_as_maintain_says_by_itself() -> None:
    options = read_options(["maintain"])
    assert isinstance(options, Options)
    assert options.days == upkeep.DAYS == maintain.SHORTEST_DAYS


@pytest.mark.parametrize(
    ("words", "index", "offered"),
    [
        ("mainstem sta", 1, "status"),
        ("mainstem run --thr", 2, "--through"),
        ("mainstem run --through sil", 3, "silver"),
        ("mainstem explain LEASE", 2, "LEASE_HELD"),
    ],
)
def test_a_shell_completes_commands_options_and_values(words: str, index: int, offered: str) -> None:
    shell = {"_MAINSTEM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    command = [sys.executable, "-m", "mainstem"]
    done = subprocess.run(command, env={**os.environ, **shell}, capture_output=True, text=True, check=False)
    assert offered in done.stdout.split()


def test_an_unexpected_error_names_its_class_and_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(root: str | None) -> list[doctor.Finding]:
        raise KeyError("colour")

    monkeypatch.setattr(doctor, "diagnose", fail)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err.splitlines()[:3] == [
        "error: UNEXPECTED_ERROR",
        "  found: KeyError: 'colour'",
        "  where: mainstem doctor",
    ]


def test_an_unexpected_error_names_the_layer_and_the_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(root: str | None) -> list[doctor.Finding]:
        with located("layer silver"), located("batch 7 (source erp)"):
            raise KeyError("colour")

    monkeypatch.setattr(doctor, "diagnose", fail)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    where = "  where: layer silver, batch 7 (source erp) (mainstem doctor)\n"
    assert where in capsys.readouterr().err


def test_a_command_that_is_stopped_says_that_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stop(root: str | None) -> list[doctor.Finding]:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "diagnose", stop)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: INTERRUPTED\n")
    assert "do:    run again: nothing is lost or doubled" in error


def test_a_column_of_a_row_is_named_once() -> None:
    assert row_key(["id=17", "line=a=b"]) == {"id": "17", "line": "a=b"}
    for values, nulls in ((["id=17", "id=18"], []), (["id=17", "id=17"], []), (["id=17"], ["id"])):
        with pytest.raises(ConfigurationError, match="BAD_KEY") as refused:
            row_key(values, nulls)
        assert refused.value.found == "the column 'id' twice"


@pytest.mark.parametrize("name", ["x=y", "=", "`x`=`y`", "`", "a=b`c"])
def test_a_column_of_a_row_may_have_an_equals_sign_in_its_name(name: str) -> None:
    key = {name: "a=b`c", "id": "7", f"{name}2": ""}
    assert row_key([f"{column_word(column)}={text}" for column, text in key.items()]) == key
    assert row_words({name: "5"}) == f"{column_word(name)}=5"
    command = trace_command("shop.orders", [name], [f"{name}=5"])
    assert command is not None
    assert row_key(shlex.split(command)[3:]) == {name: "5"}
    assert row_key(["x`y=1", "`z=2"]) == {"x`y": "1", "`z": "2"}


@pytest.mark.parametrize("command", ["forget", "trace"])
def test_a_column_of_a_row_may_be_null(command: str) -> None:
    for words, key in (
        (["id=17", "--null", "line"], {"id": "17", "line": None}),
        (["--null", "id", "line=null"], {"id": None, "line": "null"}),
        (["--null", "id", "--null", "line"], {"id": None, "line": None}),
    ):
        options = read_options([command, "shop.line", *words])
        assert isinstance(options, Options)
        assert row_key(options.key, options.null) == key
    assert row_words({"id": "17", "line": None, "part": "2"}) == "id=17 part=2 --null line"
    with pytest.raises(ConfigurationError, match="BAD_KEY") as refused:
        row_key([])
    assert refused.value.found == "no column of the row"
