"""`mainstem alerts`: shows the receivers of alerts, and tries them."""

from __future__ import annotations

from framework.cli.options import Options
from framework.cli.terminal import say_json, say_line
from framework.config.alerts import Alert
from framework.pipeline.session import read_config


def run(options: Options) -> int:
    """Print the receivers without their addresses; returns 1 where a test could not be sent."""
    config = read_config(options.config)
    if not options.test:
        found = [_described(alert) for alert in config.alerts]
        if options.json:
            say_json({"alerts": found})
        else:
            for at, alert in enumerate(config.alerts):
                say_line(f"alerts[{at}]  {alert.host:<22} about {', '.join(map(str, alert.about))}")
            _say_none(found)
        return 0
    from framework.pipeline.alerts import send_test_alerts  # slow to import

    sent = send_test_alerts(config)
    if options.json:
        failures = [None if error is None else error.found for _, error in sent]
        tried = zip(config.alerts, failures, strict=True)
        say_json({"alerts": [{**_described(alert), "failure": failure} for alert, failure in tried]})
    else:
        for at, (alert, error) in enumerate(sent):
            say_line(f"{'ok  ' if error is None else 'FAIL'}  alerts[{at}]  {alert.host}")
            if error is not None:
                say_line(f"      {error.found}")
                say_line(f"      do: {error.action}")
        _say_none(sent)
    return 0 if all(error is None for _, error in sent) else 1


def _described(alert: Alert) -> dict[str, object]:
    return {
        "kind": "webhook" if alert.webhook is not None else "url",
        "to": alert.host,
        "about": list(alert.about),
    }


def _say_none(found: object) -> None:
    if not found:
        say_line("nobody is told: write `alerts:` into the configuration, as docs/monitoring.md shows")
