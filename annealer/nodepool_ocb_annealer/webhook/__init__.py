"""The webhook: entries of the journal are posted to a receiver, by one annealer at a time."""
