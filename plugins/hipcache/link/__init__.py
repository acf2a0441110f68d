"""Links of device code, and programs that one command compiles and links: the kinds of commands that run a linker.

program     the planner: a compile for each source, and then the link; or the link alone
bundler     links that the driver plans with clang-offload-bundler
wrapper     links that clang-linker-wrapper makes (the new offload driver)
images      the device images in the wrapper's inputs
steps       the device link of an arch, and the host's, as actions
"""

from __future__ import annotations

LINK_PLANNER = "hipcache.link.program"
