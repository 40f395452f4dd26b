"""Events as JSON, as in the `.events.json` files of fixtures and in `mainstem formats --events`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import fields

from framework.contracts.ddl_actions import actions_text
from framework.contracts.events import Column, Event


def event_members(event: Event) -> dict[str, Any]:
    """The members of an event as JSON values, in the order of its class; defaults are left out."""
    members = {}
    for field in fields(event):
        value = getattr(event, field.name)
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        if default is NODEFAULT or value != default:
            members[field.name] = (
                json.loads(actions_text(value)) if field.name == "actions" else _json_value(value)
            )
    return members


def _json_value(value: Any) -> Any:
    if isinstance(value, Column):
        parts = {"type": value.type, "declared": value.declared, "token": value.token}
        return {name: str(part) for name, part in parts.items() if part is not None}
    if isinstance(value, Mapping):
        return {name: _json_value(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, str) else value
