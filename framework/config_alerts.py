"""The `alerts` part of the configuration: who is told when a run fails or finds what is wrong."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from framework.config_values import refused


class Style(StrEnum):
    """What a webhook is sent: one JSON object with all there is to tell, or the text alone as Slack wants it."""

    JSON = "json"
    SLACK = "slack"


class Alert(BaseModel):
    """One webhook. Its address is a secret: it is never printed, and errors name its host alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: str = Field(repr=False)
    style: Style = Style.JSON

    @field_validator("webhook")
    @classmethod
    def _refuse_other_places(cls, webhook: str) -> str:
        parts = urlsplit(webhook)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise refused("write an address that begins with https://, by reference: ${env:NAME}")
        return webhook

    @property
    def host(self) -> str:
        """The part of the address that may be told."""
        return urlsplit(self.webhook).hostname or ""
