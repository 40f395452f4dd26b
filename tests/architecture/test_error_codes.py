"""Every error code that the code can raise has an explanation, and the page of all errors is current."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from framework.contracts.quarantine_reasons import Reason
from framework.explanations import CHAPTERS, EXPLANATIONS, FORMER_NAMES
from framework.explanations.page import markdown_page
from silver.epochs import stop_points

ROOT = Path(__file__).parents[2]
PACKAGES = ("mainstem", "framework", "bronze", "silver", "gold")
PARTS = {"found", "where", "action"}
CODE = re.compile(r"[A-Z]+(_[A-Z]+)+")
STOP_REASONS = {text for name, text in vars(stop_points).items() if name.isupper()}
BAD_VALUE_REASONS = ("bad_key", "bad_value", "not_listed", "precision")


class ComputedCode(Exception):
    """A code that the source does not spell out."""


def codes_in(text: str) -> set[str]:
    """The codes of all errors that a module makes.

    A call with the three parts of an error makes one; its code comes first. A code may be written there, may
    be the parameter of a helper (its calls in the module have the code), may come from a table of the module,
    or from another error.
    """
    tree = ast.parse(text)
    found: set[str] = set()
    for function, call in _calls(tree, None):
        if not {keyword.arg for keyword in call.keywords} >= PARTS or not call.args:
            continue
        found |= _codes_of(call.args[0], function, tree)
    return found


def _codes_of(code: ast.expr, function: ast.FunctionDef | None, tree: ast.Module) -> set[str]:
    if isinstance(code, ast.Constant):
        return {str(code.value)}
    if isinstance(code, ast.IfExp):
        return _codes_of(code.body, function, tree) | _codes_of(code.orelse, function, tree)
    if isinstance(code, ast.Attribute) and code.attr == "condition":
        return set()
    if not isinstance(code, ast.Name):
        raise ComputedCode(ast.unparse(code))
    parameters = [each.arg for each in function.args.args] if function is not None else []
    if function is None or code.id not in parameters:
        parts = [each for node in ast.walk(tree) for each in _written_in(node)]
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        return {text for text in texts if isinstance(text, str) and CODE.fullmatch(text)}
    at = parameters.index(code.id)
    calls = [call for _, call in _calls(tree, None) if getattr(call.func, "id", "") == function.name]
    return set().union(*(_codes_of(call.args[at], None, tree) for call in calls))


def _written_in(node: ast.AST) -> list[ast.expr]:
    """The values of a tuple or an assignment."""
    if isinstance(node, ast.Tuple):
        return node.elts
    return [node.value] if isinstance(node, ast.Assign) else []


def _calls(
    node: ast.AST, function: ast.FunctionDef | None
) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    """Each call with the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call):
            yield inner, child
        yield from _calls(child, inner)


@cache
def raised_codes() -> dict[str, str]:
    """The codes in the project, each with a module that raises it."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name != "framework/errors.py":  # it restores errors of any code
                found.update(dict.fromkeys(codes_in(path.read_text(encoding="utf-8")), name))
    return found


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('raise MainstemError("A_B", found=f, where=w, action=a)', {"A_B"}),
        ('Refused("STOPPED", found=f, where=w, action=a)', {"STOPPED"}),
        ('E("A_B" if x else "C_D", found=f, where=w, action=a)', {"A_B", "C_D"}),
        ("E(error.condition, found=f, where=w, action=a)", set()),
        ('def e(code, f):\n return E(code, found=f, where=f, action=f)\ne("A_B", "C_D")', {"A_B"}),
        (
            'T = (("A_B", "text"), ("C_D", "x"))\nfor code, f in T:\n E(code, found=f, where=w, action=a)',
            {"A_B", "C_D"},
        ),
    ],
)
def test_codes_are_found_where_the_source_writes_them(text: str, codes: set[str]) -> None:
    assert codes_in(text) == codes


def test_a_code_that_is_computed_is_refused() -> None:
    with pytest.raises(ComputedCode):
        codes_in("E(str(reason).upper(), found=f, where=w, action=a)")


def test_every_code_has_an_explanation() -> None:
    raised = raised_codes()
    missing = {code: module for code, module in raised.items() if code not in EXPLANATIONS}
    assert missing == {}, "explain these codes in framework/explanations/"
    reasons = {*map(str, Reason), *STOP_REASONS, *BAD_VALUE_REASONS}
    assert reasons - set(EXPLANATIONS) - {code.lower() for code in raised} == set(), "explain these reasons"
    assert set(EXPLANATIONS) - set(raised) - reasons == set(), "nothing raises these codes"


def test_a_former_name_is_no_code() -> None:
    assert "SOURCE_UNKNOWN" in FORMER_NAMES
    assert set(FORMER_NAMES) & {*EXPLANATIONS, *raised_codes()} == set()


def test_each_heading_of_the_page_is_there_once_and_all_links_lead_to_one() -> None:
    page = markdown_page()
    headings = [text.lower().replace(" ", "-") for text in re.findall(r"^### (.*)$", page, re.M)]
    assert sorted(headings) == sorted(set(headings))
    assert sorted(re.findall(r"\]\(#(.*?)\)", page)) == sorted(headings)
    assert "Begin again](operations.md#begin-again)" in page


def test_each_code_is_explained_once_and_in_order() -> None:
    for chapter in CHAPTERS.values():
        codes = [entry.code for entry in chapter]
        assert codes == sorted(set(codes))
    assert sum(map(len, CHAPTERS.values())) == len(EXPLANATIONS)


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_an_explanation_has_all_parts_as_sentences(code: str) -> None:
    entry = EXPLANATIONS[code]
    for text in (entry.meaning, entry.cause, entry.remedy, entry.example):
        assert re.fullmatch(r"\S.*[.`]", text), f"{code}: a sentence ends with a full stop: {text!r}"


def test_the_page_of_all_errors_is_current() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    assert page == markdown_page(), "run `make errors-page`"


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]
)
def test_the_links_to_explanations_lead_to_one(page: str) -> None:
    linked = re.findall(r"errors\.md#([a-z_]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert [code for code in linked if code.upper() not in EXPLANATIONS] == []
