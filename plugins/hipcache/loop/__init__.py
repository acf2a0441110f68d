"""One command from its kind to what is told of it: the front, the loop that builds its graph, and its account."""
