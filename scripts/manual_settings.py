"""The manual's page of settings."""

from __future__ import annotations

from hipcache.config.files import NAMES_A_FILE
from hipcache.config.settings import VARIABLES

# What a value may be, by kind of setting.
KINDS = {
    "program": "the name of a program, or its absolute path",
    "directory": "an absolute path",
    "addresses": "server addresses, separated by spaces; in a config file also a list",
    "directories": "absolute paths, separated by colons",
    "file": "an absolute path",
    "flag": "1, yes, true or on; 0, no, false or off",
    "size": "bytes, or a number with K, M, G, T, KiB, MiB, GiB or TiB",
    "count": "0, 1, 2 ...",
    "positive": "1, 2, 3 ...",
    "share": "a fraction such as 1/100, or 0",
    "format": "text or json",
    "name": "up to 64 letters, digits, '.', '_', '+' and '-'",
    "mask": "a umask such as 002, 007 or 077",
}


# For each setting a value that somebody would write.
EXAMPLES = {
    "dir": "/var/cache/hipcache",
    "config_file": "/home/me/ci.yaml",
    "system_config": "/opt/site/hipcache.yaml",
    "disable": "1",
    "readonly": "1",
    "recache": "1",
    "max_size": "20GiB",
    "packs": "0",
    "basedir": "/home/me/project",
    "namespace": "nightly",
    "key": "/home/me/.config/hipcache/key",
    "umask": "002",
    "log": "/tmp/hipcache.log",
    "log_format": "json",
    "stats_log": "/tmp/build.jsonl",
    "jobs": "8",
    "remote": "grpc://cache.example.com:9092",
    "executor": "grpc://build.example.com:8980/main?jobs=32",
    "prefetch": "0",
    "verify": "1/100",
    "preambles": "0",
    "preamble_checks": "64",
    "cxx_cache": "ccache",
    "iree_checks": "0",
    "resident": "0",
    "system_paths": "/usr:/opt",
}


# Pages of the manual: Markdown.


_SETTINGS = """\
# Settings

Each setting is an environment variable, and a key of the same name in config files. An empty value counts as not set.
`hipcache config` shows each value and its origin:

```sh
hipcache config
hipcache config set max_size 20GiB
hipcache config get max_size
hipcache config unset max_size
hipcache config --project set basedir .
```

## Config files

A later file overrides the files before it, and environment variables override all files:

| | file | `config set` | allowed keys |
|---|---|---|---|
| system-wide | `/etc/hipcache.yaml`, or what `HIPCACHE_SYSTEM_CONFIG` names | `--system` | all keys |
| the user's | `~/.config/hipcache/hipcache.yaml`, or what `HIPCACHE_CONFIG` names | | all keys |
| the store's | `hipcache.yaml` in `HIPCACHE_DIR` | `--store` | `max_size`, `readonly`, `umask` |
| a project's | `.hipcache.yaml` in the working directory, or above | `--project` | `basedir`, `disable`, `readonly` |

Somebody else may have written a checkout, and others may share a store. So these two files cannot say where hipcache
reads, writes or sends data (store, log, remote, executor), which programs run, whose records count, or how often hits
are checked. A key that is not allowed is an error that names it, and the build continues without the cache. A project's
`basedir` is the directory of its file, or one below it: with `basedir: .` all checkouts share. These two files count
only if they are not symbolic links, and belong to you, to root, or to the owner of their directory.

## All settings

| variable | key | meaning | default | example |
|---|---|---|---|---|
"""

_SETTINGS_END = """
## Namespaces

`HIPCACHE_NAMESPACE` is part of the key of every result, in the store and in a remote. So one namespace never serves
results of another, or results without a namespace; that holds for direct hits, too. Namespaces share contents (the
store keeps equal objects once), facts about tools, statistics and the size limit. `hipcache gc --namespace NAME`
removes the results of one namespace, and the contents that no other uses. A namespace is no protection; use
[`HIPCACHE_KEY`](../SECURITY.md) for that. A remote's instance or prefix is different: it is part of the remote's
address, and a separate area on that server.

## Values

"""


def settings_manual() -> str:
    rows = [
        f"| `{variable}` | {'-' if setting.key in NAMES_A_FILE else f'`{setting.key}`'} | {cell(setting.sentence)}"
        f" | {f'`{setting.default}`' if setting.default else 'not set'} | `{EXAMPLES[setting.key]}` |"
        for variable, setting in VARIABLES.items()
    ]
    used = {setting.kind: None for setting in VARIABLES.values()}
    kinds = [f"- {kind}: {cell(KINDS[kind])}" for kind in used]
    return _SETTINGS + "\n".join(rows) + "\n" + _SETTINGS_END + "\n".join(kinds) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
