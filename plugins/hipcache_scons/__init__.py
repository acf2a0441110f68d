"""The SCons front: HIP sources in the builders of SCons, each offload arch cached on its own.

    tool          variables, builders, methods           what an SConstruct sees
    action        the action of every HIP compile        what SCons calls
    link          the action of links, for relocatable device code
    iree          IREE modules, one for each device and target
    ahead         what a build needs, fetched from the remote at once
    cached        one compile or link through the engine
    commands      the command of an action
    direct        direct hits of compiles
    targets       the programs and libraries that objects go to
    database      the objects in SCons' compilation database
    dependencies  real dependency lists as nodes
    shadows       headers that may appear
    toolchain     the toolchain in SCons' signatures

`hipcache.py` beside them is the tool module that `toolpath` finds.

As a callable: `from hipcache_scons import generate` and `Environment(tools=["default", generate])`.
"""

from hipcache_scons.tool import CheckHip, exists, generate

__all__ = ["CheckHip", "exists", "generate"]
