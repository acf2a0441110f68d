"""Values without I/O: an action, its result, the graph of all actions of one command."""
