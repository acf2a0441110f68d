"""Processes that are started, limited in number, and watched."""

import signal

# What ends a compile.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
