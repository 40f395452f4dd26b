"""The `alerts` part of the configuration: webhooks for runs that fail or find problems."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from framework.config.value_types import value_error


class Style(StrEnum):
    """What a webhook receives: a JSON object with all the details, or only the text, as Slack needs it."""

    JSON = "json"
    SLACK = "slack"


class Alert(BaseModel):
    """One webhook. Its address is a secret: it is never printed, and errors have only its host."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: str = Field(
        repr=False, description="The address, written as a reference to a secret: `${env:SHOP_WEBHOOK}`."
    )
    style: Style = Field(
        default=Style.JSON, description="`json` sends all details, `slack` a text that Slack shows."
    )

    @field_validator("webhook")
    @classmethod
    def _refuse_other_places(cls, webhook: str) -> str:
        parts = urlsplit(webhook)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise value_error("write an address that begins with https://, by reference: ${env:NAME}")
        return webhook

    @property
    def host(self) -> str:
        """The part of the address that is no secret."""
        return urlsplit(self.webhook).hostname or ""
