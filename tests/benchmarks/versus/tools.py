"""The tools that are compared: how each is installed, set up and started, and where its table is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tests.benchmarks.versus import check
from tests.benchmarks.versus.processes import Command, ToolFailed, reason
from tests.benchmarks.versus.with_mainstem import CONFIG

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENVIRONMENTS = ROOT / ".versus"
_OURS = {"PYTHONPATH": str(ROOT)}
_SPEC = """\
name: versus
storage: {storage}
catalog: {catalog}
database: default
libraries:
  - glob: {{include: "transformations/**"}}
"""
ICEBERG = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.versus": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.versus.type": "hadoop",
    "spark.sql.catalog.versus.warehouse": "{folder}/made",
    "spark.sql.sources.default": "iceberg",
}
DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.warehouse.dir": "{folder}/made",
    "spark.sql.sources.default": "delta",
}
_SPARK = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.sql.pipelines.execution.maxFlowRetryAttempts": "0",
}


@dataclass(frozen=True)
class Tool:
    """A tool, by the name that the table shows.

    `whole` is the command that a user would start for a round; `staying` does a round for each line it reads.
    `pins` names the requirements of an environment of its own, None for the project's.
    """

    name: str
    whole: Callable[[Path], Command]
    staying: Callable[[Path], Command]
    read: Callable[[Path], pa.Table]
    set_up: Callable[[Path], None] = lambda folder: None
    pins: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables of its processes."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTHON"))
        }
        if self.pins is not None:
            kept["PATH"] = f"{_binaries(self.pins)}:{kept['PATH']}"
        return {**kept, **{name: value.format(folder=folder) for name, value in self.more.items()}}

    def install(self, uv: str) -> None:
        """Makes its environment, unless it is there.

        Raises:
            ToolFailed: The registry does not have it.
        """
        if self.pins is None:
            return
        place, pins = ENVIRONMENTS / self.pins, HERE / f"{self.pins}.txt"
        ready = place / ".ready"
        if ready.exists() and ready.read_text() == pins.read_text():
            return
        shutil.rmtree(place, ignore_errors=True)
        python = str(place / "bin" / "python")
        for command in (
            [uv, "venv", "--quiet", "--python", sys.executable, str(place)],
            [uv, "pip", "install", "--quiet", "--python", python, "--requirement", str(pins)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ToolFailed(reason(done.stderr))
        ready.write_text(pins.read_text())


def _binaries(pins: str) -> Path:
    return ENVIRONMENTS / pins / "bin"


def _one_round(staying: Command) -> Command:
    """The script for one line."""
    return ["sh", "-c", 'echo round | "$0" "$@"', *staying]


def mainstem() -> Tool:
    return Tool(
        "Mainstem",
        whole=lambda folder: [sys.executable, "-m", "framework.cli", "run", "-c", folder / "mainstem.yml"],
        staying=lambda folder: [sys.executable, "-m", "tests.benchmarks.versus.with_mainstem", folder],
        read=lambda folder: check.read_delta(folder / "lakehouse" / "gold" / "shop" / "item"),
        set_up=lambda folder: (folder / "mainstem.yml").write_text(CONFIG) and None,
        more=_OURS,
    )


def notebook() -> Tool:
    def staying(folder: Path) -> Command:
        return [sys.executable, "-m", "tests.benchmarks.versus.with_notebook", folder]

    return Tool(
        "notebook by hand",
        whole=lambda folder: _one_round(staying(folder)),
        staying=staying,
        read=lambda folder: check.read_delta(folder / "item"),
        more=_OURS,
    )


def dlt(way: str) -> Tool:
    def staying(folder: Path) -> Command:
        return [_binaries("dlt") / "python", HERE / "with_dlt.py", folder, way]

    return Tool(
        f"dlt, {'Arrow tables' if way == 'arrow' else 'dictionaries'}",
        whole=lambda folder: _one_round(staying(folder)),
        staying=staying,
        read=lambda folder: check.read_delta(folder / "made" / "shop" / "item"),
        pins="dlt",
        more={"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"},
    )


def autocdc(table_format: str) -> Tool:
    """AUTO CDC on `iceberg` or `delta`."""
    settings, catalog = (ICEBERG, "versus") if table_format == "iceberg" else (DELTA, "spark_catalog")

    def set_up(folder: Path) -> None:
        for name in ("transformations", "conf", "storage"):
            (folder / name).mkdir()
        shutil.copy(HERE / "autocdc_flow.py", folder / "transformations")
        storage = (folder / "storage").as_uri()
        (folder / "spark-pipeline.yml").write_text(_SPEC.format(storage=storage, catalog=catalog))
        lines = [f"{name} {value.format(folder=folder)}" for name, value in {**_SPARK, **settings}.items()]
        (folder / "conf" / "spark-defaults.conf").write_text("\n".join(lines))

    def read(folder: Path) -> pa.Table:
        if table_format == "delta":
            return check.read_delta(folder / "made" / "item")
        script, target = HERE / "with_autocdc.py", folder / "exported"
        shutil.rmtree(target, ignore_errors=True)
        command = [_binaries("autocdc") / "python", script, "export", f"{catalog}.default.item", target]
        subprocess.run(command, cwd=folder, env=tool.environment(folder), check=True, capture_output=True)
        return check.read_parquet(target)

    tool = Tool(
        f"AUTO CDC, {table_format.title()}",
        whole=lambda folder: [_binaries("autocdc") / "spark-pipelines", "run"],
        staying=lambda folder: [_binaries("autocdc") / "python", HERE / "with_autocdc.py", folder],
        read=read,
        set_up=set_up,
        pins="autocdc",
        more={"SPARK_CONF_DIR": "{folder}/conf"},
    )
    return tool


def all_tools() -> list[Tool]:
    """Mainstem first: the others are measured against it."""
    return [mainstem(), notebook(), dlt("rows"), dlt("arrow"), autocdc("iceberg"), autocdc("delta")]
