"""Processes that are started, limited in number, and watched."""
