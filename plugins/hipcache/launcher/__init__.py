"""The entry of a command: whether hipcache handles it, and how this process ends in every case."""
