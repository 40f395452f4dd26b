"""Parts of a lakehouse that a user may lose, and runs that do what each error says until all is well."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from framework.cli import main
from tests.end_to_end.idle_tries import without_open_session

ROUNDS = 8
_ERROR = re.compile(r"error: ([A-Z_]+)\n  found: .*\n  where: .*\n  do:    (.*)")


def parts_of(source: str, replica: str) -> Mapping[str, Sequence[str]]:
    """Patterns below the lakehouse, by the name that the tests give to a part."""
    return {
        "messages": ["bronze/messages"],
        "changes": ["silver/changes"],
        "schemas": ["silver/schemas"],
        "quarantine": ["silver/quarantine"],
        "pending": ["silver/pending"],
        "replica": [f"gold/{replica}"],
        "history": [f"gold/{replica}__history"],
        "counts": ["ops/batches"],
        "states": ["ops/tables"],
        "files": [f"ops/files/{source}"],
        "statements": ["ops/statements"],
        "epochs": ["ops/epochs"],
        "bronze_checkpoint": [f"_mainstem/bronze/{source}*"],
        "silver_checkpoint": ["_mainstem/silver*"],
        "kept": ["_mainstem/kept"],
    }


def take_away(lakehouse: Path, patterns: Sequence[str]) -> None:
    """Remove what each pattern finds; it has to find something."""
    for pattern in patterns:
        found = list(lakehouse.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def put_back(lakehouse: Path, older: Path, patterns: Sequence[str]) -> None:
    """Replace what each pattern finds by what an older copy of the lakehouse has there."""
    take_away(lakehouse, patterns)
    for pattern in patterns:
        for path in older.glob(pattern):
            place = lakehouse / path.relative_to(older)
            shutil.copytree(path, place) if path.is_dir() else shutil.copy2(path, place)


def follow(lakehouse: Path, condition: str, advice: str, backup: Path) -> None:
    """Do what an error says; without the backup, but where nothing else brings the table back."""
    done, place = 0, "/lakehouse"  # the folder may have a space in its name
    advice = advice.replace(str(lakehouse), place)

    def there(path: str) -> Path:
        return lakehouse / path.removeprefix(f"{place}/")

    if condition == "EPOCHS_LOST":
        (name,) = re.findall(r"put (\S+) back from a backup", advice)
        shutil.copytree(backup / name, lakehouse / name)
        return
    for paths in re.findall(r"delete (/\S+?(?:(?:, | and )/\S+?)*)(?=[,;:.]? |$)", advice):
        for path in re.split(r", | and ", paths):
            shutil.rmtree(there(path), ignore_errors=True)
            done += 1
    for path in re.findall(r"create the empty file (/\S+?\.reset)\b", advice):
        there(path).touch()
        done += 1
    assert done, advice


def run_on(lakehouse: Path, backup: Path, command: Sequence[str]) -> tuple[list[str], str]:
    """Repeats the run and follows the advice of each error until none is left. A run first tries to do
    without a session, as it does in a process that has none.

    Returns the conditions of the errors, and the output of the last run.
    """
    conditions: list[str] = []
    for _ in range(ROUNDS):
        output, complaints = io.StringIO(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(complaints), without_open_session():
            code = main(list(command))
        if code == 0:
            return conditions, output.getvalue() + complaints.getvalue()
        errors = _ERROR.findall(complaints.getvalue())
        assert (code, bool(errors)) == (1, True), output.getvalue() + complaints.getvalue()
        for condition, advice in dict.fromkeys(errors):
            follow(lakehouse, condition, advice, backup)
            conditions.append(condition)
    raise AssertionError(f"no end: {conditions}")
