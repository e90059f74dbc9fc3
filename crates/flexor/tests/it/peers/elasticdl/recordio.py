"""The reader of RecordIO, which this job does not use; only its name is asked for."""
