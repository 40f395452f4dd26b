"""The records that pass between layers: plain frozen data.

`messages` is what bronze lands, `events` is what a decoder reads from a message, `quarantine_reasons` is the
closed list of reasons for quarantine, `table_schemas` has the Spark schemas of the tables where two layers
meet, and `expectations` is what layers hand to the quality step.
"""
