# Copyright 2026 The hipcache authors
# Distributed under the terms of the MIT License

EAPI=8

DISTUTILS_USE_PEP517=hatchling
DISTUTILS_EXT=1
DISTUTILS_SINGLE_IMPL=1
PYTHON_COMPAT=( python3_{10..14} )

inherit distutils-r1

DESCRIPTION="Compile cache for AMD HIP that caches every GPU architecture on its own"
HOMEPAGE="https://example.org/hipcache"
SRC_URI="https://example.org/hipcache/${P}.tar.gz"

LICENSE="MIT"
SLOT="0"
KEYWORDS="~amd64"

RDEPEND="
	app-arch/zstd
	$(python_gen_cond_dep 'dev-python/pyyaml[${PYTHON_USEDEP}]')
"
BDEPEND="${RDEPEND}"

# A launcher that is linked statically would be traced by the sandbox.
export HIPCACHE_BUILD=package

python_install_all() {
	distutils-r1_python_install_all
	insinto /usr/share/hipcache
	newins packaging/gentoo/bashrc portage.bashrc
}
