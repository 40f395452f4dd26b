"""The rows of recorded messages are those that earlier releases stored: ids, sequences, texts, schemas.

A lakehouse has rows of earlier releases, and the same message must give the same row again: an id that
changes makes a redelivered change a second one. `python -m tests.silver.changes.test_stored_rows` writes the
digests anew: after new recordings, or after a change of rows that is meant and that CHANGELOG.md tells.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from silver.changes.decode import SourcePlan, decode_batch
from silver.changes.staged_rows import plain_rows
from tests.silver.changes.test_decode import MESSAGES
from tests.silver.recorded import SCENARIOS, context_of, format_of, messages_of

STORED = Path(__file__).parents[2] / "fixtures" / "stored_rows.json"
DIGESTS: dict[str, str] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def digest_of(scenario: str) -> str:
    """A digest of all columns of the rows of a scenario."""
    fmt = format_of(scenario.partition("/")[0])
    messages = messages_of(scenario)
    columns = {
        "source": ["feed"] * len(messages),
        "topic": [message.topic for message in messages],
        "partition": [message.partition for message in messages],
        "offset": [message.offset for message in messages],
        "key": [message.key for message in messages],
        "value": [message.value for message in messages],
    }
    nothing = [None] * len(messages)
    arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in MESSAGES]
    plan = SourcePlan(fmt, context_of(scenario, fmt), 1, lambda *_: False, 10**9)
    found = decode_batch(pa.RecordBatch.from_arrays(arrays, schema=MESSAGES), {"feed": plan})
    rows = [
        {
            name: list(cell.items()) if isinstance(cell, dict) else cell
            for name, cell in row.items()
            if name != "run_end"  # newer than the digests, and no table stores it
        }
        for row in plain_rows(pa.Table.from_batches([found]))
    ]
    return sha256(json.dumps(rows).encode()).hexdigest()


@pytest.mark.parametrize("scenario", sorted(DIGESTS))
def test_the_rows_of_a_recorded_scenario_are_those_that_are_stored(scenario: str) -> None:
    assert digest_of(scenario) == DIGESTS[scenario]


def test_each_format_has_stored_rows() -> None:
    assert {scenario.partition("/")[0] for scenario in DIGESTS} == {
        scenario.partition("/")[0] for scenario in SCENARIOS
    }


if __name__ == "__main__":
    digests = {scenario: digest_of(scenario) for scenario in SCENARIOS}
    STORED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
