"""A stub for the RecordIO reader: the job imports it and does not use it."""
