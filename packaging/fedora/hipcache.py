"""A plugin of mock: mounts a store of hipcache into the build root, and names it there.

Into mock's plugins (`/usr/lib/python3*/site-packages/mockbuild/plugins/hipcache.py`), and in mock's configuration:

    config_opts['plugins'].append('hipcache')
    config_opts['plugin_conf']['hipcache_enable'] = True
    config_opts['plugin_conf']['hipcache_opts'] = {'dir': '/var/cache/hipcache', 'max_size': '20GiB'}
"""

from mockbuild.mounts import BindMountPoint

try:
    from mockbuild.file_util import mkdirIfAbsent
except ImportError:  # an older mock
    from mockbuild.util import mkdirIfAbsent

requires_api_version = "1.1"

INSIDE = "/var/tmp/hipcache"


def init(plugins, conf, buildroot):
    if not buildroot.is_bootstrap:
        HipCache(plugins, conf, buildroot)


class HipCache:
    def __init__(self, plugins, conf, buildroot):
        self.buildroot = buildroot
        self.store = conf["dir"]
        self.size = str(conf.get("max_size", "10GiB"))
        buildroot.preexisting_deps.append("hipcache")
        inside = buildroot.make_chroot_path(INSIDE)
        buildroot.mounts.add(BindMountPoint(srcpath=self.store, bindpath=inside))
        plugins.add_hook("preinit", self.prepare)

    def prepare(self):
        """The store belongs to the build's user, and its group may write, too: other chroots have other users."""
        mkdirIfAbsent(self.buildroot.make_chroot_path(INSIDE))
        mkdirIfAbsent(self.store)
        self.buildroot.uid_manager.changeOwner(self.store)
        self.buildroot.env.update(
            HIPCACHE_DIR=INSIDE,
            HIPCACHE_UMASK="002",
            HIPCACHE_MAX_SIZE=self.size,
            CMAKE_HIP_COMPILER_LAUNCHER="hipcache",
            CMAKE_CXX_COMPILER_LAUNCHER="hipcache",
        )
