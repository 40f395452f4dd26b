"""Switches off each guard against lost, doubled or misordered changes: a named test must fail.

    MAINSTEM_MUTATIONS=1 python -m pytest tests/architecture/test_mutations.py

Each guard is taken out of a copy of the project, where the tests run that must notice. By default it is only
checked that the guards and the tests still stand where this list says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "mainstem",
    "framework",
    "bronze",
    "silver",
    "gold",
    "tests",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)


@dataclass(frozen=True)
class Mutation:
    """A place in the code, what it becomes without its guard, and the tests that then fail."""

    file: str
    guard: str
    without: str
    noticed_by: tuple[str, ...]


TO_REPLICA = "tests/end_to_end/test_blob_to_replica.py"
GUARDS = "tests/gold/test_guards.py::test_old_work_late_changes_and_odd_keys_do_no_harm"
MUTATIONS = {
    "ties of positions that are only times": Mutation(
        "silver/changes/decode.py",
        "is_tied = position is None or not is_place or event.is_shared or is_of_record",
        "is_tied = position is None",
        (
            "tests/silver/changes/test_decode.py::test_positions_that_are_only_times_take_broker_coordinates_as_tie_breakers",
        ),
    ),
    "equal rows of a snapshot without a key are as many rows": Mutation(
        "silver/changes/decode.py",
        "is_of_record = event.is_of_record or (event.op is Op.READ and not (event.keys or event.is_single))",
        "is_of_record = event.is_of_record",
        (
            "tests/silver/changes/test_equal_rows.py::test_equal_rows_of_a_snapshot_that_follow_each_other_are_as_many_rows",
        ),
    ),
    "an older copy of a replica is made again": Mutation(
        "gold/planning/rebuild.py",
        "if any(is_put_back(spark, lake.location(name), mark) for name, mark in marked_places(task)):",
        "if False:",
        ("tests/end_to_end/test_older_replicas.py::test_changes_that_an_older_copy_lacks_are_not_lost",),
    ),
    "a value that can be read in several ways waits": Mutation(
        "silver/envelopes/debezium/encoding_modes.py",
        'if len({_READ[cell.field.name or ""](cell.field, mode, cell.text) for mode in left}) > 1:',
        "if False:",
        (
            "tests/silver/envelopes/debezium/test_encoding_modes.py::test_a_row_that_no_mode_or_more_than_one_reads_is_refused_with_the_setting_to_write",
        ),
    ),
    "ties of effects on one key": Mutation(
        "gold/changes/effects.py",
        'ORDER = ("sequence", "rank", "is_whole_change", "change_id")',
        'ORDER = ("sequence",)',
        ("tests/gold/changes/test_latest.py::test_histories_end_as_in_the_source",),
    ),
    "deleted stays deleted": Mutation(
        "gold/writing/late_changes.py",
        "return top is not None and low is not None and low <= top",
        "return False",
        (GUARDS, f"{TO_REPLICA}::test_late_changes_repeats_deletes_and_truncate_end_as_in_order"),
    ),
    "a key with a null part": Mutation(
        "gold/writing/merge.py",
        'same = "<=>" if bounds is None else "="',
        'same = "="',
        (GUARDS,),
    ),
    "the higher sequence wins": Mutation(
        "gold/writing/merge.py",
        'newer = "(t._cdc_sequence IS NULL OR s._cdc_sequence > t._cdc_sequence)"',
        'newer = "true"',
        (GUARDS,),
    ),
    "halves that wait": Mutation(
        "silver/batches/pending.py",
        'merge.delete("s.is_gone").insert(WAITING_VALUES, "NOT s.is_gone").execute()',
        'merge.delete("s.is_gone").execute()',
        (f"{TO_REPLICA}::test_halves_in_any_order_and_run_lead_to_one_update",),
    ),
    "one run at a time": Mutation(
        "framework/lakehouse/lease.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        ("tests/framework/lakehouse/test_lease.py::test_second_run_learns_who_holds_the_lease",),
    ),
    "the JVM of a killed run ends first": Mutation(
        "framework/lakehouse/lease.py",
        "        _await_orphan(earlier, path)\n",
        "",
        ("tests/framework/lakehouse/test_lease.py::test_next_holder_waits_for_the_child_of_a_killed_owner",),
    ),
    "a batch that is committed is not told again": Mutation(
        "silver/batches/process.py",
        "if not is_new and is_committed(spark, state.lake, batch):",
        "if False:",
        ("tests/silver/test_guards.py::test_each_guard_alone_commits_a_repeated_batch_once",),
    ),
    "what was derived of a batch is not derived again": Mutation(
        "silver/batches/process.py",
        "counts = batch_counts.counts_of(spark, state.lake, batch)",
        "counts = []",
        ("tests/silver/test_guards.py::test_a_batch_again_leaves_alone_what_batches_behind_it_have_paired",),
    ),
    "the mark of silver's write": Mutation(
        "silver/batches/process.py",
        'state.transaction("changes", batch)',
        "None",
        ("tests/silver/test_guards.py::test_each_guard_alone_commits_a_repeated_batch_once",),
    ),
    "the mark of bronze's write": Mutation(
        "bronze/landing.py",
        "feed.lake.append(part.rows(), MESSAGES_TABLE, transaction,",
        "feed.lake.append(part.rows(), MESSAGES_TABLE, None,",
        ("tests/bronze/test_landing.py::test_repeated_batch_lands_nothing_twice",),
    ),
    "repeats": Mutation(
        "silver/batches/outcomes.py",
        'marked = counted.join(earlier, "change_id", "left").where(F.col("n").__gt__(1) | F.col("is_known"))',
        'marked = counted.join(earlier, "change_id", "left").where("n > 1")',
        ("tests/silver/batches/test_few_outcomes.py::test_repeats_are_marked_as_spark_marks_them",),
    ),
    "repeats of earlier changes in a small batch": Mutation(
        "silver/batches/few_outcomes.py",
        "found[change_id not in known :]",
        "found[1:]",
        (f"{TO_REPLICA}::test_late_changes_repeats_deletes_and_truncate_end_as_in_order",),
    ),
    "earlier changes at the positions of a small batch's halves": Mutation(
        "silver/batches/few_outcomes.py",
        'members += _with_origin([row for row in found if row["kind"] == "row"], KNOWN)',
        "",
        ("tests/silver/batches/test_few_outcomes.py::test_halves_are_paired_as_spark_pairs_them",),
    ),
    "halves that a small batch refuses do not wait any more": Mutation(
        "silver/batches/few_pending.py",
        "if kind in SETTLED_KINDS or",
        'if kind == "row" or',
        ("tests/silver/batches/test_few_pending.py::test_the_halves_that_wait_are_those_that_spark_leaves",),
    ),
    "the newest checkpoint of a log": Mutation(
        "framework/lakehouse/file_commits.py",
        "checkpoint is None or checkpoint <=",
        "True or checkpoint <=",
        (
            "tests/framework/lakehouse/test_file_commits.py::test_a_version_at_hand_knows_the_newest_checkpoint",
        ),
    ),
    "a change twice in Arrow batches that do not follow each other": Mutation(
        "silver/batches/contents.py",
        "if top and low <= top:",
        "if False:",
        (
            "tests/silver/batches/test_contents.py::test_no_change_is_twice_in_a_batch_that_may_not_hold_repeats",
        ),
    ),
    "a note on tables that have changed": Mutation(
        "silver/stream/known_progress.py",
        "if commit is not None and commit == commits[name]}",
        "if commit is not None}",
        ("tests/silver/stream/test_known_progress.py::test_a_note_of_another_lakehouse_is_not_used",),
    ),
    "the keys of a merge are not sure": Mutation(
        "gold/writing/key_bounds.py",
        "if text is None or not certainly_fits(text, column.type):",
        "if text is None:",
        ("tests/gold/writing/test_key_bounds.py::test_a_merge_names_its_keys_only_where_they_are_sure",),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_guard_and_the_tests_that_notice_its_absence_are_there(name: str) -> None:
    mutation = MUTATIONS[name]
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.guard) == 1
    for place in mutation.noticed_by:
        file, _, test = place.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, in which all of the named tests pass."""
    folder = tmp_path_factory.mktemp("mutations")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    code, output = outcome(
        folder, sorted({test for mutation in MUTATIONS.values() for test in mutation.noticed_by})
    )
    assert code == 0, output
    return folder


def outcome(project: Path, tests: list[str]) -> tuple[int, str]:
    """The exit code of these tests of the copy: 0 all pass, 1 some fail; and what they said."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    return done.returncode, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.skipif(
    not os.environ.get("MAINSTEM_MUTATIONS"), reason="guards are switched off by make mutations"
)
@pytest.mark.parametrize("name", MUTATIONS)
def test_without_the_guard_a_named_test_fails(project: Path, name: str) -> None:
    mutation = MUTATIONS[name]
    file = project / mutation.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(mutation.guard, mutation.without), encoding="utf-8")
    try:
        for test in mutation.noticed_by:
            code, output = outcome(project, [test])
            assert code == 1, f"{test} does not notice\n{output}"
    finally:
        file.write_text(whole, encoding="utf-8")
