"""The records that pass between layers: plain frozen data, no Spark.

`raw` is what bronze lands, `events` is what a format's decoder says of a message, `reasons` is the closed list of
reasons for quarantine, `tables` holds the Spark schemas of the tables where two layers meet.
"""
