"""Great Expectations is loaded when something is judged, and its verdict stands on what was measured."""

from __future__ import annotations

import subprocess
import sys

from framework.quality.rules import Rule
from framework.quality.subject import Finding
from framework.quality.verdict import Judge


def test_the_layers_are_known_without_great_expectations() -> None:
    code = "import sys; from framework.layer import installed_layers as found; list(found()); sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_rule_holds_where_nothing_breaks_it_and_is_open_where_it_could_not_be_judged() -> None:
    rules = [Rule("not_null(id)", "not_null", ("id",)), Rule("unique(id)", "unique", ("id",)), Rule("implied_keys", "implied_keys")]
    findings = [Finding(rules[0], 3, 0), Finding(rules[1], 3, 2), Finding(rules[2], 0, 0, is_judged=False)]
    judge = Judge()
    assert judge.verdicts("shop.item", findings) == [True, False, None]
    assert judge.verdicts("shop.item", findings[:1]) == [True]
