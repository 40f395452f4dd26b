"""The kinds of sources: one module for each kind, and one entry here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bronze.source import SourceKind
from bronze.sources.files import KIND as FILES
from bronze.sources.kafka import KIND as KAFKA
from bronze.sources.table import KIND as TABLE

KINDS: Mapping[str, SourceKind] = MappingProxyType({kind.name: kind for kind in (FILES, KAFKA, TABLE)})
