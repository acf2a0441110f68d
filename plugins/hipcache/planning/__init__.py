"""From a command to its units, as values: the driver's plan, and how it is cut and keyed."""
