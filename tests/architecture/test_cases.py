"""Lists the tests of each hard case and each fault: they exist, and a case without a test has a reason.

A test is `file::name`, below `tests/`. Each format writes a case in its own way: the random feeds write them
in every format (`make property`; a few formats in the default run).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

RANDOM = "end_to_end/test_random_feeds.py::test_replicas_are_the_tables_of_the_sources"
REPLICA = "end_to_end/test_blob_to_replica.py"
GUARDS = "gold/test_guards.py::test_old_work_late_changes_and_odd_keys_do_no_harm"
TABLES = "gold/writing/test_apply.py::test_tables_end_as_they_should_in_batches_and_rebuilt"
HISTORIES = "gold/changes/test_latest.py::test_histories_end_as_in_the_source"
LISTED_HISTORIES = "gold/changes/test_latest.py::test_listed_histories_end_as_in_the_source"
IN_ORDER = f"{REPLICA}::test_late_changes_repeats_deletes_and_truncate_end_as_in_order"
IN_HALVES = f"{REPLICA}::test_halves_in_any_order_and_run_lead_to_one_update"
STATEMENTS = "gold/schema/test_statements.py::test_tables_follow_their_statements_whenever_they_arrive"
COLUMNS = "gold/schema/test_columns.py"
CELLS = "gold/schema/test_casting.py::test_every_case_is_typed_as_expected"
TYPES = "silver/values/test_canonical.py"
POISON = "silver/formats/test_poison.py"

KEYS = {
    "a changed key": (IN_HALVES, HISTORIES),
    "a key change told as delete, tombstone, create": (
        "silver/formats/test_debezium.py::test_key_change_without_headers_is_a_delete_and_an_insert",
        "silver/formats/test_debezium.py::test_tombstone_behind_a_delete_is_a_control_event",
    ),
    "two rows that swap their keys": (
        LISTED_HISTORIES,
        "silver/changes/test_pairing.py::test_swapped_keys_on_one_position_are_updates_of_each_key",
    ),
    "no key": (
        GUARDS,
        "silver/formats/test_oms_shareplex.py::test_table_without_configured_keys_is_append_only",
    ),
    "a key with a null part": (GUARDS,),
    "one key in several spellings": (GUARDS,),
    "keys that a source's collation takes for one": (RANDOM,),
    "an unsigned key beyond 63 bits": (
        f"{COLUMNS}::test_an_integer_that_its_declared_type_does_not_hold_widens_it",
        CELLS,
    ),
}
ORDER = {
    "many changes of a key in a batch": (HISTORIES,),
    "deleted and inserted again in a batch": (HISTORIES,),
    "inserted and deleted in a batch": (HISTORIES, GUARDS),
    "an old change behind the delete": (GUARDS, IN_ORDER),
    "an old change long behind the delete": (GUARDS,),
    "one position, several changes": (
        "silver/changes/test_decode.py::test_positions_that_are_only_times_take_broker_coordinates_as_tie_breakers",
        "silver/changes/test_deduplication.py::test_there_and_back_and_there_is_three_changes",
    ),
    "positions that are text": (
        "silver/values/test_sequence.py::test_order_of_bytes_is_the_numeric_order_of_positions",
    ),
    "numbered log files that get a digit more": (
        "silver/formats/test_debezium.py::test_binlog_files_and_positions_are_numbers",
    ),
    "positions that begin anew": (
        "end_to_end/test_repair.py::test_a_source_whose_positions_begin_anew_stops_and_goes_on_with_the_next_epoch",
        "silver/epochs/test_resets.py::test_lower_positions_that_happened_later_are_a_reset",
    ),
    "order by commit, not by change": ("silver/formats/test_debezium.py::test_oracle_is_ordered_by_commit",),
    "a snapshot row that looks newer than the stream": (
        "silver/changes/test_decode.py::test_a_snapshot_row_without_a_position_sorts_first_and_has_one_id_in_its_epoch",
    ),
    "a snapshot taken again": (
        "silver/changes/test_deduplication.py::test_a_snapshot_row_again_is_a_repeat",
        "silver/operations/test_late_snapshots.py::test_rows_of_snapshots_behind_changes_are_counted_by_table_and_epoch",
    ),
    "thousands of messages delivered again": (
        RANDOM,
        "silver/test_guards.py::test_each_guard_alone_commits_a_repeated_batch_once",
    ),
    "a truncate between inserts": (IN_ORDER,),
    "an insert from before the truncate, late": (IN_ORDER, TABLES),
    "a half without its partner": (
        "silver/changes/test_pairing.py::test_an_overdue_after_half_becomes_an_update_without_a_before_image",
        "silver/changes/test_pairing.py::test_an_overdue_before_half_is_quarantined",
        "silver/changes/test_pairing.py::test_the_late_partner_of_a_released_half_completes_it_under_the_same_change_id_and_sequence",
    ),
    "an update of a row never seen": (HISTORIES,),
    "a transaction larger than a batch": (RANDOM,),
}
VALUES = {
    "placeholders for unchanged values": (
        "silver/formats/test_debezium.py::test_spellings_of_the_placeholder",
        "silver/formats/test_debezium.py::test_key_change_with_a_placeholder_takes_the_value_from_the_old_row",
    ),
    "null and absent": (
        "silver/formats/test_oms_canal.py::test_old_value_null_was_null_and_absent_is_unchanged",
        "silver/formats/test_lindorm.py::test_column_absent_from_both_images_is_unchanged",
    ),
    "empty text and null": (
        "silver/changes/test_change_id.py::test_null_empty_text_and_nothing_differ",
        CELLS,
    ),
    "unsigned numbers": (
        f"{COLUMNS}::test_an_integer_that_its_declared_type_does_not_hold_widens_it",
        RANDOM,
    ),
    "numbers of more than 38 digits": (
        f"{TYPES}::test_numbers_of_more_than_38_digits_stay_as_sent",
        "silver/formats/test_totality.py::test_no_digit_of_a_number_is_lost",
    ),
    "decimals as bytes": (
        "silver/envelopes/connect/test_column_types.py::test_decimals_are_unscaled_bytes",
        "silver/envelopes/connect/test_column_types.py::test_decimal_with_its_own_scale_is_undeclared",
    ),
    "dates of zeros": (CELLS,),
    "times beyond the calendar, and nanoseconds": (
        CELLS,
        f"{TYPES}::test_instants_lie_in_the_years_1_to_9999_or_stay_as_sent",
    ),
    "time zones": (
        f"{TYPES}::test_wall_time_of_an_epoch_carries_no_zone",
        f"{TYPES}::test_wall_time_of_a_zone_becomes_an_instant_the_earlier_where_clocks_go_back",
        "framework/spark/test_session.py::test_times_of_the_hour_that_occurs_twice_come_back_as_they_were",
    ),
    "what is no number": (CELLS,),
    "odd types of sources": (
        "silver/envelopes/connect/test_column_types.py::test_logical_types",
        f"{TYPES}::test_declared_values_take_their_types_text_or_stay_as_sent",
        "end_to_end/test_recordings.py::test_replicas_of_recorded_feeds_equal_the_tables",
    ),
    "text of any script": (
        "silver/formats/test_totality.py::test_every_text_comes_out_as_it_went_in",
        RANDOM,
    ),
    "documents in a column": (
        f"{POISON}::test_an_odd_value_is_kept_exactly",
        "silver/decoding/test_duplicate_keys.py::test_names_once_equal_repeats_and_json_values_pass",
    ),
    "a value of a hundred megabytes": (
        "end_to_end/test_limits.py::test_a_message_of_500_mb_is_quarantined_and_one_of_60_is_a_row",
        f"{POISON}::test_27_a_text_of_21_million_characters_is_kept",
    ),
}
NAMES = {
    "a column added between rows": (
        f"{REPLICA}::test_a_rename_and_a_new_column_take_effect_at_their_position",
        STATEMENTS,
    ),
    "a column renamed between rows": (
        "gold/schema/test_statements.py::test_each_value_stands_under_its_columns_name_of_today",
        STATEMENTS,
    ),
    "names that go in a circle": (
        f"{COLUMNS}::test_swapped_columns_keep_their_values_apart",
        "gold/schema/test_lineage.py::test_a_cycle_of_renames_in_three_statements_swaps_the_tables",
    ),
    "a dropped column's name again": (
        f"{COLUMNS}::test_a_dropped_column_whose_name_comes_back_is_set_aside",
    ),
    "names that differ by case": (
        "gold/planning/test_plan.py::test_columns_that_differ_by_case_are_refused",
        "gold/schema/test_statements.py::test_each_value_stands_under_its_columns_name_of_today",
        "gold/planning/test_places.py::test_names_that_differ_by_case_are_one_place",
    ),
    "names of any characters": (
        "framework/test_naming.py::test_quoted_identifier_ends_only_at_its_own_end",
        f"{REPLICA}::test_bad_messages_cells_and_names_do_no_harm",
    ),
    "columns named like ours": (
        "framework/test_naming.py::test_reserved_columns_get_underscores_until_they_are_unique",
    ),
    "types that widen, and types that do not": (
        "gold/planning/test_plan.py::test_types_that_delta_widens_stay_in_place",
        "gold/planning/test_plan.py::test_a_type_that_delta_cannot_widen_is_a_rebuild_with_the_type_of_both",
    ),
    "a table dropped and created, or swapped by a tool": (
        "gold/schema/test_lineage.py::test_a_table_dropped_and_created_again_starts_empty",
        "gold/schema/test_lineage.py::test_a_shadow_table_swapped_in_is_the_table_from_then_on",
        "gold/schema/test_lineage.py"
        "::test_a_shadow_table_whose_rows_the_feed_leaves_out_changes_the_table_in_place",
    ),
    "thousands of columns, and none but the key": (
        "gold/schema/test_column_names.py::test_two_thousand_columns_added_one_by_one_and_at_once",
        GUARDS,
    ),
}

CRASHES = "end_to_end/test_crashes.py::test_a_run_that_died_at_a_named_point_is_repeated_as_if_it_had_not"
FAULTS = {
    "killed around silver's commit": (CRASHES,),
    "killed between two tables": (CRASHES,),
    "killed between a table and its progress": (
        CRASHES,
        "end_to_end/test_rare_crashes.py::test_a_command_that_died_is_repeated_as_if_it_had_not",
    ),
    "killed at any moment": (
        "end_to_end/test_crashes.py::test_a_run_that_died_anywhere_is_repeated_as_if_it_had_not",
        "end_to_end/test_kills.py::test_runs_that_are_killed_again_and_again_lead_to_the_right_tables",
    ),
    "killed in its upkeep": (
        "end_to_end/test_killed_upkeep.py::test_upkeep_that_is_killed_changes_no_value_and_is_ended_by_the_next",
    ),
    "delivered twice": (
        RANDOM,
        "silver/test_guards.py::test_each_guard_alone_commits_a_repeated_batch_once",
    ),
    "delivered in another order": (RANDOM, HISTORIES),
    "halves apart, twice, in the wrong order, never": (
        IN_HALVES,
        "silver/changes/test_pairing.py::test_each_update_is_one_row_when_all_halves_come_in_one_batch",
        "silver/changes/test_pairing.py::test_releases_between_the_batches_lead_to_the_same_complete_updates",
    ),
    "state lost or cut short": (
        "end_to_end/test_faults.py::test_damaged_state_is_named_and_repaired_as_the_error_says",
        "end_to_end/test_repair.py::test_a_lost_checkpoint_of_silver_is_reported_and_repaired_without_a_second_outcome",
        "framework/lakehouse/test_checkpoint_files.py::test_a_file_that_is_gone_or_cut_short_is_named_with_the_way_out",
        "bronze/test_landing.py::test_lost_checkpoint_or_log_is_refused_and_begun_anew_on_request",
    ),
    "started twice": (
        "end_to_end/test_crashes.py::test_a_second_run_leaves_and_a_killed_holder_is_no_hindrance",
        "framework/lakehouse/test_lease.py::test_second_run_learns_who_holds_the_lease",
    ),
    "paused, overtaken and woken": (
        "framework/lakehouse/test_lease.py::test_a_paused_owner_keeps_its_place_beyond_the_end_of_its_lease",
        GUARDS,
    ),
    "two writers of one place": (
        "framework/lakehouse/test_owner.py::test_a_lakehouse_is_one_pipelines",
        "gold/planning/test_places.py::test_two_sources_do_not_feed_one_replica",
    ),
    "a full disk": (
        "end_to_end/test_unusable_places.py::test_a_full_disk_ends_the_run_with_the_reason_and_the_next_one_goes_on",
    ),
    "a place that cannot be written, or is gone": (
        "end_to_end/test_unusable_places.py::test_a_table_that_cannot_be_written_is_parked_and_the_others_go_on",
    ),
    "another schema inside a batch": (STATEMENTS, RANDOM),
    "another schema while nothing ran": (STATEMENTS, RANDOM),
    "messages that are none": (
        f"{POISON}::test_a_poison_message_is_quarantined_with_its_reason",
        f"{POISON}::test_every_kind_of_poison_is_tried_on_every_format",
        "silver/formats/test_totality.py::test_any_bytes_are_events_or_malformed",
        "end_to_end/test_random_feeds.py::test_every_message_has_its_outcome",
    ),
    "huge messages": (
        "end_to_end/test_limits.py::test_a_message_of_500_mb_is_quarantined_and_one_of_60_is_a_row",
        "bronze/files/test_line_parser.py::test_line_longer_than_the_limit_is_counted_and_let_go_and_the_others_are_read",
        "silver/decoding/test_json_reader.py::test_an_image_has_at_most_ten_thousand_columns",
    ),
    "clocks that are wrong": (
        "silver/changes/test_pairing.py::test_a_half_without_a_time_to_believe_waits_from_the_time_at_its_arrival_and_keeps_its_own",
        "silver/epochs/test_resets.py::test_late_changes_snapshot_rows_and_other_tables_are_none",
        "bronze/files/test_listing.py::test_file_with_a_time_in_the_future_is_complete_when_it_stands_still",
    ),
    "a source that begins anew": (
        "end_to_end/test_repair.py::test_a_source_whose_positions_begin_anew_stops_and_goes_on_with_the_next_epoch",
        RANDOM,
    ),
    "bronze's past gone": (
        "end_to_end/test_faults.py::test_damaged_state_is_named_and_repaired_as_the_error_says",
        "bronze/test_landing.py::test_replaced_bronze_is_refused_even_when_nothing_is_new",
        "bronze/sources/test_kafka.py::test_lost_offsets_name_the_range_and_nothing_is_skipped",
    ),
    "bronze compacted or rewritten": (
        "end_to_end/test_bronze_rewritten.py::test_compacted_bronze_is_read_on_and_an_updated_one_refused",
        "end_to_end/test_bronze_rewritten.py::test_bronze_rewritten_in_any_way_is_refused",
    ),
    "many tables, a busy one, new ones": (
        "end_to_end/test_limits.py::test_fifty_new_tables_beside_a_busy_one_are_all_right_in_bounded_threads",
    ),
    "a table that always fails": (
        "end_to_end/test_unusable_places.py::test_a_table_that_cannot_be_written_is_parked_and_the_others_go_on",
        "gold/writing/test_apply.py::test_settings_that_change_take_effect_at_once",
    ),
    "mistakes of the configuration": (
        "framework/config/test_model.py::test_refusals_name_place_and_remedy",
        "framework/config/test_model.py::test_two_sources_never_read_one_place",
    ),
    "secrets": (
        "framework/config/test_model.py::test_a_secret_is_never_shown",
        "framework/config/test_secrets.py::test_a_secret_that_is_not_there_is_named_and_the_answer_is_not_shown",
        f"{POISON}::test_the_reason_names_a_field_and_never_a_value",
    ),
    "names and values that look like SQL": (
        "framework/test_naming.py::test_quoted_identifier_ends_only_at_its_own_end",
        f"{REPLICA}::test_bad_messages_cells_and_names_do_no_harm",
    ),
    "names that look like paths": (
        "framework/test_naming.py::test_a_folder_stays_under_the_root_and_in_sight",
    ),
    "names that become one": (
        "framework/test_naming.py::test_two_names_never_share_a_folder",
        "gold/planning/test_places.py::test_names_that_differ_by_case_are_one_place",
    ),
    "credentials that change": (
        "framework/config/test_secrets.py::test_a_secret_is_read_anew_each_time_and_a_new_one_is_no_other_configuration",
    ),
    "a worker that dies": (
        "end_to_end/test_lost_workers.py::test_messages_decoded_again_after_their_worker_was_killed_give_the_same_rows",
        "end_to_end/test_lost_workers.py::test_a_run_whose_workers_are_killed_ends_as_one_that_was_left_alone",
    ),
    "tables of another release": (),
    "a thousand rounds": (
        "end_to_end/test_soak.py::test_what_a_process_holds_does_not_grow_with_its_rounds",
    ),
}
WITHOUT_A_TEST = {
    "tables of another release": "there has been no release yet whose tables could be kept as they were"
}
CASES = KEYS | ORDER | VALUES | NAMES


def test_every_case_and_fault_is_counted() -> None:
    assert (len(KEYS), len(ORDER), len(VALUES), len(NAMES), len(CASES), len(FAULTS)) == (
        8,
        18,
        14,
        10,
        50,
        33,
    )


@cache
def functions_of(file: str) -> frozenset[str]:
    return frozenset(
        re.findall(r"^def (test_\w+)\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("name", [*CASES, *FAULTS])
def test_its_tests_are_there(name: str) -> None:
    tests = CASES.get(name, ()) or FAULTS.get(name, ())
    assert bool(tests) != (name in WITHOUT_A_TEST)
    for test in tests:
        file, _, function = test.partition("::")
        assert function in functions_of(file), test
