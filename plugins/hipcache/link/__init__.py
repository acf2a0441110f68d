"""Links of device code, and programs that one command compiles and links: the kinds of commands that run a linker.

planner     asks for the plan of a link, and makes its graph
bundler     links that the driver plans with clang-offload-bundler
wrapper     links that clang-linker-wrapper makes (the new offload driver)
images      the device images in the wrapper's inputs
program     a compile for each source, and then the link
steps       the device link of an arch, and the host's, as actions
"""

from __future__ import annotations

PLANNERS = {"program": "hipcache.link.program", "link": "hipcache.link.planner"}
