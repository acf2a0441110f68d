"""Reports of compiles: statistics, and the history that explains misses."""
