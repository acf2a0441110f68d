"""What a remote adds: its addresses, and a check of them."""

from __future__ import annotations

ADDRESSES = {"remote": "hipcache.remote.address"}
CHECKS = "hipcache.remote.doctor"
