"""Records a short run of the real databases for the default tests: `python -m tests.real.record`.

`python -m tests.real.record modes` records the connectors' modes instead (see `modes.py`). For each connector
the messages as `kcat -J` prints them, and for each database its tables as they were at the end.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

from tests.real.capture import PREFIXES, Captured, capture
from tests.real.databases import MariaDb, Postgres
from tests.real.kafka import Broker, classpath
from tests.real.record_modes import record_modes

FOLDER = Path(__file__).parents[1] / "fixtures" / "recordings"


def main() -> None:
    """Write the recordings anew."""
    with tempfile.TemporaryDirectory(prefix="mainstem-record-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        place.chmod(0o755)
        broker, mariadb, postgres = (
            Broker(place / "broker", classpath()),
            MariaDb(place / "mariadb"),
            Postgres(place / "postgres"),
        )
        try:
            servers = (mariadb.start(), postgres.start())
            if sys.argv[1:] == ["modes"]:
                record_modes(place, broker.start(), {"m": servers[0], "p": servers[1]})
                return
            found = capture(place, broker.jars, broker.start(), servers, seed="recorded", steps=12, body=2600)
            _write(found)
        finally:
            broker.stop()
            mariadb.stop()
            postgres.stop()


def _write(found: Captured) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for prefix in PREFIXES:
        lines = [
            json.dumps(message, ensure_ascii=False) for message in found.broker.read(found.topics(prefix))
        ]
        text = "".join(f"{line}\n" for line in lines)
        (FOLDER / f"{prefix}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    for letter, workload in found.workloads.items():
        tables = {
            table.name: {
                "keys": [key.name for key in table.keys],
                "columns": [[c.name, c.declared, c.kind] for c in table.all_columns],
                "rows": found.cells[letter][table.name],
            }
            for table in workload.tables.values()
        }
        (FOLDER / f"{letter}.tables.json").write_text(
            json.dumps(tables, ensure_ascii=False, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
