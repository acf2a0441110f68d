"""From the command to its units, as values: what the driver would run, and how it is cut and keyed."""
