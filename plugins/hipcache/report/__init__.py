"""What is told afterwards: statistics, and the history that explains misses."""
