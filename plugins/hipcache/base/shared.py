"""Values that Python and C share: formats on disk, limits, numbers of answers, lists of words.

`shared.h` is written from this module by `scripts/shared_header.py`: each name in capitals becomes a constant
of the same name there (a text with its NUL, a tuple of texts a list that ends with NULL).
"""

from __future__ import annotations

import hipcache

# The first part of each key (`base/keys`).
KEY_FORMAT = "10"
# Of direct records (`direct/record`): the kind in their keys, and what stands before each text that is hashed.
DIRECT_KIND = "direct 3"
DIRECT_KIND_ON_TERMINAL = "direct 3 on a terminal"
DIRECT_KIND_ELSEWHERE = "direct 3 elsewhere"
VARIABLES_DOMAIN = "hipcache direct variables 2"
STATE_DOMAIN = "hipcache direct state 2"
SYSTEM_DOMAIN = "hipcache system state 1"
# Of records in the store (`store/layout`), and of seals (`store/seal`).
ACTION_DOMAIN = "hipcache action record 1"
SEAL_CONTEXT = "hipcache 2026-11-22 records of a store"
NAMESPACE_CONTEXT = "hipcache 2026-11-23 namespace of a store"
SEALED_NAME_DOMAIN = "hipcache sealed name 1"

# The digest of a file's content is noted under this name (`native/direct/reading.c`, `remote/helper/start`), from so
# many bytes on.
CONTENT_CLAIM_DOMAIN = "hipcache content of a status 1"
LARGE_CONTENT = 1 << 20

# Directories of configure checks (`outcome.is_check`): try_compile() of CMake 3.25 and newer, and of older ones; SCons'
# Configure(). Meson's directory has a name that begins so.
CHECK_DIRECTORIES = ("/CMakeFiles/CMakeScratch/", "/CMakeFiles/CMakeTmp/", "/.sconf_temp/")
MESON_CHECK = "/meson-private/tmp"

# The mark in place of the base directory (`inputs/basedir`).
BASEDIR_MARK = "<basedir>"

# Bytes of the largest file of each kind in a store. A blob of 4 GiB is hashed in some seconds; no object file is that
# large.
MOST_BLOB = 4 << 30
MOST_STATISTICS = 64 << 20
# The config files but the user's (`config/files`): packagers may have another place for the first.
SYSTEM_CONFIG = "/etc/hipcache.yaml"
STORE_SETTINGS, PROJECT_SETTINGS = "hipcache.yaml", ".hipcache.yaml"
# Before what the engine leaves the launcher of a config file (`config/resolved`).
SETTINGS_DOMAIN = "hipcache settings of a file 1"
# Of a config file: YAML takes half a millisecond for each kilobyte.
MOST_CONFIG = 1 << 16

# The lexer: what it can be asked for, what it says of a text, and what is to be done with a word.
LEXER_BARE, LEXER_ALL, LEXER_RAW = 1, 2, 4
# `bare` cannot stand for the text; it has a literal or a comment that people may read in another way; clang's options,
# or whether the text is skipped, decide how it is read; there was no memory.
LEXED_NOT_BARE, LEXED_UNPLAIN, LEXED_AMBIGUOUS, LEXED_NO_MEMORY = 1, 2, 4, 8
WORD_IN_LINES, WORD_NAMES, WORD_KNOWN = 1, 2, 4

# Why the observer has no list: the words of each number are in `base/native`.
OBSERVED, NO_FILTER, NO_THREAD, NOT_READABLE, UNKNOWN_CALL, TOO_MANY, LEFT_BEHIND = range(7)

# Each is set by a builder of packages (`builders`); makepkg says no more of itself than its domain of translations.
BUILDERS_VARIABLES = (
    *("DEB_BUILD_ARCH", "DH_INTERNAL_OPTIONS", "DH_INTERNAL_BUILDFLAGS", "RPM_BUILD_ROOT", "RPM_PACKAGE_NAME"),
    *("NIX_BUILD_TOP", "PORTAGE_BUILDDIR", "CONDA_BUILD", "SPACK_SHORT_SPEC"),
)
MAKEPKGS_TEXTDOMAIN = "pacman-scripts"

STORAGE_HELPER = hipcache.STORAGE_HELPER
# Variables that decide who a storage helper is to the remote begin so, in capitals or not.
CREDENTIALS = (
    *("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_", "GRPC_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "NO_GRPC_PROXY"),
)
# Seconds in which nobody asks a remote after a fault.
REMOTE_DOWN = 600


def terminated(text: str) -> bytes:
    """The text as C hashes it."""
    return text.encode() + b"\0"
