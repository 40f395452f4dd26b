"""The demo's folder: a configuration, and landing folders that receive sample feeds in parts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.lease import hold_lease
from framework.text.formatting import noun_for, quantity

PIPELINE = "demo"

_SHIPPED = Path(__file__).resolve().parent
REPORT = "report.html"
CONFIGURATION = "mainstem.yml"

_LANDING, _LAKEHOUSE, _MARK = "landing", "lakehouse", ".mainstem-demo"
_FORBIDS, _ALLOWS = "schema_policy: fail", "schema_policy: lenient"


def prepare(folder: str | None) -> Path:
    """The folder of a new demo, with its configuration and empty landing folders; None: a temporary one.

    An earlier demo in the folder is removed. Raises MainstemError if the folder contains anything else, or
    cannot be written, or another demo runs there.
    """
    place = (
        Path(tempfile.mkdtemp(prefix="mainstem-demo-"))
        if folder is None
        else Path(folder).expanduser().absolute()
    )
    try:
        _clear(place)
        (place / _MARK).write_text(
            "A demo of Mainstem. The next `mainstem demo` in this folder begins anew.\n", encoding="utf-8"
        )
        for source in sorted({feed.name for part in parts(place) for feed in _feeds(part)}):
            (place / _LANDING / source).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_SHIPPED / CONFIGURATION, place / CONFIGURATION)
    except OSError as error:
        raise MainstemError(
            "DEMO_FOLDER_UNUSABLE",
            found=error.strerror or str(error),
            where=str(place),
            action="name a folder that can be written, or none: the demo then makes a temporary one",
        ) from None
    return place


def parts(folder: Path) -> list[str]:
    """The names of the parts of the feeds, in their order; a run follows each."""
    return sorted(part.name for part in (_SHIPPED / "parts").iterdir())


def land(folder: Path, part: str) -> None:
    """Put the files of one part into the landing folders: each is complete when it appears."""
    for feed in _feeds(part):
        target = folder / _LANDING / feed.name
        for file in sorted(feed.iterdir()):
            unfinished = target / f".{file.name}.tmp"
            shutil.copy2(file, unfinished)
            os.replace(unfinished, target / file.name)


def repair(folder: Path) -> None:
    """Allow the new column that parked a table: one setting of the configuration, as the reason advises."""
    file = folder / CONFIGURATION
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(_FORBIDS, _ALLOWS), encoding="utf-8")


def farewell(folder: Path) -> str:
    """What the demo has written, where its report is, and commands to try."""
    replicas = sorted(log.parent for log in (folder / _LAKEHOUSE / "gold").glob("*/*/_delta_log"))
    run = formats_run()
    others = sorted({sample.stem for sample in (_SHIPPED / "samples").iterdir()} - run)
    mainstem, configuration = _program("mainstem"), shlex.quote(str(folder / CONFIGURATION))
    return "\n".join(
        (
            "",
            f"{quantity(len(replicas), 'replica')}, built from sample feeds of"
            f" {quantity(len(run), 'format')}, {noun_for(len(replicas), 'is', 'are')} in {folder}",
            f"  {CONFIGURATION:<14} the pipeline's configuration: "
            "ten minutes to read, and a start for your own",
            f"  {_LANDING + '/':<14} the messages as they were sent: "
            "halves apart, doubled, in the wrong order, two of them broken",
            f"  {_LAKEHOUSE + '/':<14} Delta tables: "
            "bronze/messages, silver/changes, and the replicas below gold/",
            f"  {REPORT:<14} how it all stands, on one page that opens offline; the same as JSON beside it",
            f"samples of {quantity(len(others), 'more format')}, which did not run here: {', '.join(others)}",
            "look at it:",
            f"  {(folder / REPORT).as_uri()}",
            "five commands to try:",
            *(
                f"  {mainstem} {command.format(configuration=configuration)}"
                for command in (
                    "status -c {configuration}",
                    "sql -c {configuration} 'SELECT * FROM hr.employee'",
                    "trace -c {configuration} shop.orders id=105",
                    "explain SCHEMA_CHANGE_REFUSED",
                    f"detect {shlex.quote(str(folder / _LANDING / 'staff'))}",
                )
            ),
        )
    )


def formats_run() -> frozenset[str]:
    """The formats of the demo's own sources; the other formats only have a sample."""
    content = yaml.safe_load((_SHIPPED / CONFIGURATION).read_text(encoding="utf-8"))
    return frozenset(str(source["format"]) for source in content["sources"].values())


def sample(name: str) -> str | None:
    """A sample feed of a format, None where the package has none."""
    file = _SHIPPED / "samples" / f"{name}.jsonl"
    return (
        file.read_text(encoding="utf-8") if file.parent == _SHIPPED / "samples" and file.is_file() else None
    )


def _feeds(part: str) -> list[Path]:
    return sorted((_SHIPPED / "parts" / part).iterdir())


def _clear(place: Path) -> None:
    """Create the folder and remove an earlier demo in it; files that a demo does not write stay."""
    place.mkdir(parents=True, exist_ok=True)
    if not any(place.iterdir()):
        return
    if not (place / _MARK).is_file():
        raise MainstemError(
            "DEMO_FOLDER_NOT_EMPTY",
            found="a folder that holds other files than those of an earlier demo",
            where=str(place),
            action="name an empty or new folder: `mainstem demo --folder ./demo`, "
            "or none for a temporary one",
        )
    with hold_lease(Lakehouse(str(place / _LAKEHOUSE)), PIPELINE):
        for name in (_LANDING, _LAKEHOUSE):
            if (place / name).exists():
                shutil.rmtree(place / name)
        for name in (CONFIGURATION, REPORT, Path(REPORT).with_suffix(".json").name):
            (place / name).unlink(missing_ok=True)


def _program(name: str) -> str:
    """The command for a program of this environment: its name if the shell finds it, else its path."""
    own = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if found is not None and own.exists() and Path(found).samefile(own):
        return name
    return shlex.quote(min(str(own), os.path.relpath(own), key=len)) if own.exists() else name
