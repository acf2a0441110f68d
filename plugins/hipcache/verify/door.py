"""What verify adds: a check of hits, as they are delivered, and the subcommand."""

from __future__ import annotations

HIT_CHECK = "hipcache.verify.delivered"
VERBS = {"verify": "hipcache.verify.verb"}
