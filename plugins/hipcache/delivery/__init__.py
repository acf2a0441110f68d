"""The files that the user gets, each written completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.delivery import files, rules
from hipcache.model import End, Graph
from hipcache.storage import ContentStore


def deliver(graph: Graph, ends: Mapping[str, End], contents: ContentStore) -> set[str]:
    """Write the dependency files and all that is delivered; the actions whose content is lost. Raises PassThrough."""
    files.check_places(one.path for one in graph.deliveries)
    for rule in graph.rules:
        rules.write(rule, ends)
    return files.deliver(graph, ends, contents)
