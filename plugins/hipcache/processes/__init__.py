"""Processes that are started, limited in number, and watched."""

import signal

# The signals that end a compile.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
