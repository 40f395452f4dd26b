"""The `alerts` part of the configuration: who is told of runs that fail or find problems."""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from framework.config.value_types import value_error

_SERVICE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,29})://.", re.DOTALL)


class Style(StrEnum):
    """What a webhook receives: a JSON object with all the details, or only the text, as Slack needs it."""

    JSON = "json"
    SLACK = "slack"


class Topic(StrEnum):
    """What alerts are about."""

    FAILED = "failed"
    """A run failed, or a part of it that concerns no one source."""
    STOPPED = "stopped"
    """A source does not go on; the others do."""
    PARKED = "parked"
    """A table waits for somebody who mends its cause."""
    QUALITY = "quality"
    """A quality rule of severity `error` is broken."""
    QUARANTINE = "quarantine"
    """Messages have come into quarantine."""


class Alert(BaseModel):
    """One receiver: a webhook, or an address for Apprise. The address is a secret and is never printed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: str | None = Field(
        default=None,
        repr=False,
        description="The address of a webhook, written as a reference to a secret: `${env:SHOP_WEBHOOK}`.",
    )
    url: str | None = Field(
        default=None,
        repr=False,
        description="Instead of `webhook`: an address of a service that Apprise knows (mail, Teams, "
        "PagerDuty, Slack …), written as a reference to a secret: `${env:SHOP_ALERTS}`. "
        "It needs the extra `alerts`.",
    )
    about: tuple[Topic, ...] = Field(
        default=tuple(Topic),
        min_length=1,
        description="What is told: `failed` runs, `stopped` sources, `parked` tables, broken `quality` "
        "rules, messages that come into `quarantine`.",
    )
    style: Style = Field(
        default=Style.JSON,
        description="For a webhook: `json` sends all details, `slack` a text that Slack shows.",
    )

    @field_validator("webhook")
    @classmethod
    def _refuse_other_places(cls, webhook: str | None) -> str | None:
        if webhook is not None:
            parts = urlsplit(webhook)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise value_error("write an address that begins with https://, by reference: ${env:NAME}")
        return webhook

    @field_validator("url")
    @classmethod
    def _refuse_no_service(cls, url: str | None) -> str | None:
        if url is not None and _SERVICE.match(url) is None:
            raise value_error("write an address such as mailtos://… or slack://…, by reference: ${env:NAME}")
        return url

    @model_validator(mode="after")
    def _check_address(self) -> Alert:
        if (self.webhook is None) == (self.url is None):
            raise value_error("write exactly one of `webhook:` and `url:`")
        if self.url is not None and self.style is not Style.JSON:
            raise value_error("`style` is for webhooks: leave it out")
        return self

    @property
    def address(self) -> str:
        """The whole address, a secret."""
        return self.webhook or self.url or ""

    @property
    def host(self) -> str:
        """What may be shown: the host of a webhook, or the service of an address for Apprise.

        What stands where a host stands may be a token there.
        """
        if self.webhook is not None:
            return urlsplit(self.webhook).hostname or ""
        service = _SERVICE.match(self.url or "")
        return service[1].lower() if service else ""
