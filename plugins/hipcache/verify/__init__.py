"""Trust, but verify: the entries of a store checked, and objects that it serves compared with fresh ones."""
