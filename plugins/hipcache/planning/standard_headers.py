"""Which headers are standard ones: the compiler's own, those of the standard libraries of C and C++, and HIP's.

Nobody can know what a header of a user or of another library comes to in a precompiled header; these are known, and the
same everywhere.
"""

from __future__ import annotations

import os

from hipcache.inputs import standard
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Files

# Below a system directory.
_HIP = "hip/"
_OF_HIP = "hip/hip_runtime.h"


def is_standard(path: str, search: SearchPath, files: Files) -> bool:
    """Is the header at that path, which clang has found, one of them?"""
    if not search.is_own(path, files.basedir):
        return False
    place, name = search.within_own(path)
    if standard.is_standard(place, name):
        return True
    return name.startswith(_HIP) and files.is_there(place + _OF_HIP)


def is_named(name: str, search: SearchPath, files: Files) -> bool:
    """Does an include of that name, in angles or quotes, find one? (Those that it includes may be none.)"""
    if not name.startswith("<"):
        return False
    paths = (os.path.join(place, name[1:-1]) for place in search.angled)
    found = next((path for path in paths if files.is_there(path)), "")
    return is_standard(found, search, files)
