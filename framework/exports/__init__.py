"""The state of a pipeline in the formats of other tools: Prometheus and dbt."""
