"""From a command line to its end: what kind it is, its compile, what replaces that, and the report."""
