"""Checks that a text is one query without comments that calls only functions without side effects. Pure.

Spark and Delta read a statement with two parsers that do not agree on comments. So the text that runs has
none, and it is inside a query of ours: no other statement can begin there. Functions are allowed one by one:
one that the list lacks may load code, call a service or read a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NUMBER = re.compile(r"\d+(?:e\d*)?(?:bd|[lsyfd])?", re.IGNORECASE)
"""A number without sign and point, or its part: `1e+5bd` is `1e`, `+` and `5bd`."""

# One alternative for each token. Their order matters: a raw string ends at the next quote in any case.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<line_comment>--[^\r\n]*)
    | (?P<comment>/\*.*?\*/)
    | (?P<string>[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<unclear>\w+[rR]['"])
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<symbol>[^'"`$;\\])
    """,
    re.VERBOSE | re.DOTALL,
)

_KEYWORD_LIST = """
    ALL AND ANTI ANY AS ASC BETWEEN BY CASE CROSS CUBE DESC DISTINCT DIV ELSE END ESCAPE EXCEPT EXISTS
    FILTER FOR FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT INTERVAL IS JOIN LATERAL LEFT LIKE LIMIT
    MINUS NATURAL NOT OFFSET ON OR ORDER OUTER OVER PIVOT QUALIFY RANGE REGEXP RIGHT RLIKE ROLLUP ROWS
    SELECT SEMI SETS SOME TABLESAMPLE THEN UNION UNPIVOT USING VALUES WHEN WHERE WITH WITHIN
"""

_TYPE_LIST = """
    ARRAY CHAR CHARACTER DEC DECIMAL MAP NUMERIC STRING STRUCT TIMESTAMP VARCHAR
"""

_FUNCTION_LIST = """
    abs acos acosh add_months aes_decrypt aes_encrypt aggregate any any_value approx_count_distinct
    approx_percentile array array_agg array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true
    atan atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_xor
    bool_and bool_or boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
    character_length chr coalesce collate collation collect_list collect_set concat concat_ws contains conv
    convert_timezone corr cos cosh cot count count_if count_min_sketch covar_pop covar_samp crc32 csc
    cume_dist curdate current_catalog current_database current_date current_schema current_time
    current_timestamp current_timezone current_user date date_add date_diff date_format date_from_unix_date
    date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
    decimal decode degrees dense_rank double e element_at elt encode endswith equal_null every exists exp
    explode explode_outer expm1 extract factorial filter find_in_set first first_value flatten float floor
    forall format_number format_string from_csv from_json from_unixtime from_utc_timestamp get
    get_json_object getbit greatest grouping grouping_id hash hex histogram_numeric hour hypot if ifnull
    initcap inline inline_outer instr int is_valid_utf8 is_variant_null isnan isnotnull isnull
    json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase lead least
    left len length levenshtein listagg ln localtimestamp locate log log10 log1p log2 lower lpad ltrim
    luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean
    median min min_by minute mod mode monotonically_increasing_id month monthname months_between
    named_struct nanvl negative next_day now nth_value ntile nullif nullifzero nvl nvl2 octet_length overlay
    parse_json parse_url percent_rank percentile percentile_approx percentile_cont percentile_disc pi pmod
    posexplode posexplode_outer position positive pow power printf quarter quote radians raise_error rand
    randn random randstr range rank reduce regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint round row_number rpad rtrim
    schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg sec second sentences sequence
    session_user session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle sign signum
    sin sinh size skewness slice smallint sort_array soundex space split split_part sqrt stack startswith
    std stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring substring_index
    sum tan tanh time time_diff time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff tinyint to_binary to_char to_csv to_date to_json to_number to_time
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar
    to_variant_object transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt
    try_avg try_cast try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_sum
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_get typeof ucase unbase64 unhex uniform unix_date unix_micros unix_millis unix_seconds
    unix_timestamp upper url_decode url_encode user uuid validate_utf8 var_pop var_samp variance
    variant_explode variant_explode_outer variant_get version weekday weekofyear width_bucket window
    window_time xxhash64 year zeroifnull zip_with
"""
_FUNCTIONS = frozenset(_FUNCTION_LIST.split())

_BEGINNINGS = frozenset({"(", "FROM", "SELECT", "TABLE", "VALUES", "WITH"})

# Keywords may stand before a parenthesis and call nothing, and so may types.
_BEFORE_PARENTHESIS = frozenset(f"{_KEYWORD_LIST} {_TYPE_LIST} {_FUNCTION_LIST.upper()}".split())


class Refused(ValueError):
    """The text must not run; the message says why, for the person who wrote it."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def wrap_query(query: str) -> str:
    """The query as the text to run: inside a query of ours and without comments.

    Raises:
        Refused: The text has more than one statement, a comment inside a comment, a script, or a function
            that is not known to be free of side effects.
    """
    tokens = list(_tokens(query))
    words = [token for token in tokens if token.kind != "space"]
    if (
        not words or words[0].text.upper() not in _BEGINNINGS
    ):  # `(REFRESH item)` would be the table REFRESH, called item
        raise Refused(f"a text that begins with {words[0].text if words else 'nothing'}")
    for place, token in enumerate(words):
        if token.text == "(" and place:
            _check_call(words, place - 1)
        follows = words[place + 1].text if place + 1 < len(words) else ""
        if token.kind == "word" and token.text.upper() == "USING" and follows != "(":
            raise Refused("USING without a list of columns, which runs a program")
        if token.kind == "string" and follows == "(":  # a name, where double quotes are those of names
            raise Refused(f"the function {token.text}; write its name without quotes")
    return f"SELECT * FROM (\n{''.join(token.text for token in tokens)}\n) AS answer"  # noqa: S608 - what this function is for


def names_in(query: str) -> Iterator[tuple[str, ...]]:
    """The parts of all names in a text that `wrap_query` accepts, also of each beginning of a longer name.

    `shop.orders.id` may be a column of `shop.orders`, so both are names.
    """
    name, goes_on = list[str](), False
    for token in _tokens(query):
        if token.kind in ("word", "quoted"):
            part = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
            name = [*name, part] if goes_on else [part]
            yield tuple(name)
        if token.kind != "space":
            goes_on = token.text == "."


def _tokens(query: str) -> Iterator[_Token]:
    """The tokens of the text; a comment becomes a space."""
    place = 0
    while place < len(query):
        found = _TOKEN.match(query, place)
        if found is None:
            raise Refused(_what_is_wrong(query[place:]))
        text = found.group()
        if found.lastgroup == "unclear":  # `5r'…'` is one word here and a number before a raw string there
            raise Refused(f"{text[:-1]} before a quote; put a space between them")
        if found.lastgroup == "word" and text[0].isdigit() and not _NUMBER.fullmatch(text):
            # `5USING` is one word here and a number before a word there
            raise Refused(
                f"{text}; put a space behind a number, and a name that begins with one in backquotes"
            )
        if found.lastgroup == "string" and text.startswith('"') and "\\" in text:
            # where double quotes are those of names, a backslash is a plain character
            raise Refused("a backslash in double quotes; write the text in single quotes")
        if found.lastgroup == "symbol" and query.startswith("/*", place):
            raise Refused("a comment that does not end")
        if found.lastgroup == "symbol" and query.startswith("://", place):
            raise Refused("the characters ://, which begin a name of an address")
        if found.lastgroup == "comment" and "/*" in text[2:]:
            raise Refused("a comment inside a comment")
        if found.lastgroup == "line_comment" and text.endswith("\\"):
            raise Refused("a comment that ends with a backslash")
        is_comment = found.lastgroup in ("comment", "line_comment")
        yield _Token("space" if is_comment else str(found.lastgroup), " " if is_comment else text)
        place = found.end()


def _what_is_wrong(rest: str) -> str:
    first = rest[0]
    if first in "'\"`":
        return f"a quote that does not end: {first}"
    return "more than one statement" if first == ";" else f"the character {first}"


def _check_call(words: list[_Token], place: int) -> None:
    """Refuse a call of anything but the allowed functions, and of functions of a schema."""
    token = words[place]
    name = token.text
    if token.kind == "quoted":
        name = name[1:-1].replace("``", "`")
    elif token.kind != "word":
        return
    before = words[place - 1] if place else None
    if before is not None and before.kind == "word" and before.text.upper() in ("AS", "WITH", "RECURSIVE"):
        return  # the name of a result and of its columns
    if before is not None and before.text == ".":
        raise Refused(f"the function {name} of a schema; write the name of a built-in function alone")
    if name.upper() not in _BEFORE_PARENTHESIS or (token.kind == "quoted" and name.lower() not in _FUNCTIONS):
        raise Refused(
            f"the function {name}, which is not known to be free of side effects "
            "(a name of a result needs AS before it)"
        )
