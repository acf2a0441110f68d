"""One command, from its kind to its report: the front, the loop that builds its graph, and the account."""
