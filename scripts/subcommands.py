"""The subcommands of hipcache and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from hipcache import cli


def summaries() -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """(name, sentence, its arguments) of each subcommand."""
    for verb in cli.VERBS:
        module = cli.module(verb)
        parser = argparse.ArgumentParser(f"hipcache {verb}", add_help=False)
        module.add_arguments(parser)
        yield verb, module.SUMMARY, [action for action in parser._actions if action.help != argparse.SUPPRESS]
