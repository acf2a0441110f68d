"""Opens the store that the settings name."""

from __future__ import annotations

import errno
import os

from hipcache.config import Config
from hipcache.disk.confined import Confined
from hipcache.errors import StoreError
from hipcache.store import access, seal
from hipcache.store.local import LocalStore


def is_there(config: Config) -> bool:
    """Has anything ever been stored where the settings say?"""
    try:
        os.stat(Confined(config.dir).base)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # whoever opens it says what is wrong
    return True


def open_store(config: Config, *, read_only: bool = False) -> LocalStore:
    """Read-only if that is asked for, here or in the settings, or if this user may not write it. Raises StoreError."""
    read_only = read_only or config.readonly or access.why_not_writable(Confined(config.dir)) is not None
    sealed = seal.read(config.key).within(config.namespace)
    return LocalStore(
        config.dir, max_bytes=config.max_size, read_only=read_only, umask=config.umask, seal=sealed, packs=config.packs
    )


def open_to_write(config: Config) -> LocalStore:
    """Raises StoreError, also if this user may not write it."""
    refused = None if config.readonly else access.why_not_writable(Confined(config.dir))
    if refused:
        raise StoreError(
            f"store '{config.dir}' cannot be written: {refused.strerror}",
            "run this where its file system is mounted to be written"
            if refused.errno == errno.EROFS
            else "correct its owner and permissions, or run this as its owner",
        )
    return open_store(config)
