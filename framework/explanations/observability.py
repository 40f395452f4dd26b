"""Warnings about traces, lineage events and alerts: the run itself is not affected."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "ALERT_NOT_SENT",
        "A receiver of alerts was not told of a problem, or of its end. The run is not affected.",
        "The address is wrong or does not answer, or it is one for Apprise, which is not installed.",
        "Try it with `mainstem alerts --test`. For `url:` install the extra `alerts`. The next run sends it "
        "again.",
        "Found: the alert to slack was not sent: HTTP 403. Do: make a new address in Slack, and set the "
        "variable that `alerts:` names.",
    ),
    Explanation(
        "LINEAGE_NOT_SENT",
        "The events of a run for OpenLineage, or one of them, did not reach their receiver. The run is not "
        "affected.",
        "The receiver is down or slow, or refuses the request, or `openlineage.yml` has a wrong setting.",
        "Check the address (`OPENLINEAGE_URL`, or `transport` in `openlineage.yml`) and the key "
        "(`OPENLINEAGE_API_KEY`).",
        "Found: HTTP 401. Do: `export OPENLINEAGE_API_KEY=…`.",
    ),
    Explanation(
        "OPENLINEAGE_MISSING",
        "A receiver for lineage is configured, and OpenLineage is not installed. The run goes on without.",
        "`OPENLINEAGE_URL` is set or `openlineage.yml` exists, and Mainstem is installed without its extra "
        "`lineage`.",
        "Install the extra, or set `OPENLINEAGE_DISABLED=true`.",
        "Do: `pip install 'openlineage-python>=1.30,<2'` in the environment of Mainstem.",
    ),
    Explanation(
        "OPENTELEMETRY_MISSING",
        "An endpoint for traces is configured, and OpenTelemetry is not installed. The run goes on without.",
        "`OTEL_EXPORTER_OTLP_ENDPOINT` is set, and Mainstem is installed without its extra `otel`.",
        "Install the extra, or set `OTEL_SDK_DISABLED=true`.",
        "Do: `pip install 'opentelemetry-sdk>=1.30,<2' 'opentelemetry-exporter-otlp-proto-http>=1.30,<2'` "
        "in the environment of Mainstem.",
    ),
    Explanation(
        "TRACES_NOT_SENT",
        "The trace of a run, or a part of it, did not reach the collector. The run is not affected.",
        "The collector is down or slow, refuses the request, or does not speak OTLP over HTTP.",
        "Check the address and the headers (`OTEL_EXPORTER_OTLP_HEADERS`). The HTTP port is often 4318; "
        "4317 is the one for gRPC, which Mainstem does not speak.",
        "Found: HTTP 401. Do: `export OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20…`.",
    ),
)
"""In the order of the alphabet."""
