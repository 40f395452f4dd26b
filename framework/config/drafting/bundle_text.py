"""Turns a configuration that works on this machine into one for the Databricks bundle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from framework.config.document import read_document
from framework.config.value_types import is_url

SETTINGS = {
    "MAINSTEM_PIPELINE": "shop",
    "MAINSTEM_CATALOG": "main",
    "MAINSTEM_SCHEMA_PREFIX": "shop_",
    "MAINSTEM_FILES": "/Volumes/main/shop_ops/files",
    "MAINSTEM_LANDING": "/Volumes/main/shop_ops/landing/",
}
"""The names that the tasks of the bundle set, each with an example."""

_HEAD = """\
# A configuration for the Databricks bundle, which uploads it. The bundle's variables say what the references
# stand for, so that each name is written once. `MAINSTEM_LANDING` ends with a slash.
"""
_EDITOR_LINE = re.compile(r"^# yaml-language-server:.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BundleText:
    """The text of a configuration for the bundle.

    `landed` has the landing folder of this machine of each source whose files are to go into the volume.
    """

    text: str
    landed: Mapping[str, str]


def bundle_text(file: Path, environ: Mapping[str, str]) -> BundleText:
    """The configuration in a file with the places of the bundle; all else, comments too, stays as it is.

    The lakehouse becomes the bundle's catalog, and a landing folder of this machine one in the bundle's
    volume. Raises ConfigurationError where the file cannot be read.
    """
    read_document(file, environ)
    text = _EDITOR_LINE.sub("", file.read_text(encoding="utf-8-sig"))
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    landed: dict[str, str] = {}
    edits = {start: (end, new) for start, end, new in _edits(root, landed)}
    for start, (end, new) in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return BundleText(_HEAD + text, landed)


def _edits(root: yaml.MappingNode, landed: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """The places of the text to replace; fills the folders of the sources that are replaced."""
    top = _values(root)
    if "pipeline" in top:
        yield *_span(top["pipeline"]), '"${env:MAINSTEM_PIPELINE}"'
    checkpoints = '"${env:MAINSTEM_FILES}/checkpoints"'
    if "lakehouse" in top:
        lakehouse = top["lakehouse"]
        own = '{catalog: "${env:MAINSTEM_CATALOG}", schema_prefix: "${env:MAINSTEM_SCHEMA_PREFIX}"'
        for key in ("grants", "tags"):
            kept = _values(lakehouse).get(key)
            if kept is not None:
                value = yaml.SafeLoader("").construct_document(kept)
                own += f", {key}: {json.dumps(value, ensure_ascii=False)}"
        start, end = _span(lakehouse)
        separator = ", " if root.flow_style else "\n"
        more = "" if "checkpoints" in top else f"{separator}checkpoints: {checkpoints}"
        comment = _rest_of_line(lakehouse) if more and not root.flow_style else ""
        yield start, end + len(comment), own + "}" + comment + more
    if "checkpoints" in top:
        yield *_span(top["checkpoints"]), checkpoints
    for name, source in _values(top.get("sources")).items():
        files = _values(source).get("files")
        if isinstance(files, yaml.ScalarNode) and not _is_elsewhere(files.value):
            landed[name] = files.value
            yield *_span(files), f'"${{env:MAINSTEM_LANDING}}{name}"'


def _values(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """The values of a mapping by their keys; none for another node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _span(node: yaml.Node) -> tuple[int, int]:
    """Where a value begins and ends in the text, without what follows a block of lines."""
    return node.start_mark.index, _end(node)


def _end(node: yaml.Node) -> int:
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end(node.value[-1])
    return int(node.end_mark.index)


def _rest_of_line(node: yaml.Node) -> str:
    """What follows a value on its line: a comment."""
    return str(node.end_mark.buffer or "")[_end(node) :].split("\n", 1)[0].rstrip("\0")


def _is_elsewhere(place: str) -> bool:
    """Whether a landing folder is not one of this machine."""
    return is_url(place) or place.startswith("/Volumes/") or "${" in place
