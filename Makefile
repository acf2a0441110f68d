# make demo | test | test-hazards | test-integration | test-full | test-rooms | bench | setup, each from a fresh clone.

# Where nvcc is installed too, ROCm's own scripts would choose NVIDIA.
export HIP_PLATFORM := amd
# Else each engine of a test would compile its modules, and each worker pytest's form of the tests.
unexport PYTHONDONTWRITEBYTECODE
# The newest CMake and Ninja, which setup puts there, before the system's.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Two more than there are cores: tests wait for locks, clocks and servers. (Six on two cores are no faster.)
WORKERS ?= $(shell expr $$(nproc) + 2)
# What `make setup` installs beside hipcache: extras of pyproject.toml.
EXTRA := test
PYTEST_ARGS ?=
BENCH_ARGS ?=
WARM_ARGS ?=
LINK_ARGS ?=
MODULES_ARGS ?=
FAILING_ARGS ?=
# SUITE:CLANG ... (default: all)
ROOMS ?=

SECONDS ?= 60
# Tests for `make test-integration`
INTEGRATION ?= tests/integration
PYTEST = .venv/bin/pytest -n $(WORKERS) --dist worksteal
# In `make test`: a build by each front end, a packaging recipe; of each feature that is loaded by itself.
SMOKE := $(addprefix tests/integration/, \
    test_cmake_builds.py::test_a_project_that_was_not_edited_builds_cold_and_warm \
    test_meson.py::TestCache::test_a_second_build_is_served_each_unit \
    test_scons_hits.py::test_objects_that_are_built_again_are_hits \
    test_ways.py::test_make_with_its_own_rules_and_hipcc_builds_cold_and_warm \
    test_recipes.py::test_a_debian_rules_file_that_includes_the_switch) $(addprefix tests/features/, \
    test_driver_header.py::test_it_is_made_when_it_pays_and_used_when_three_sources_came_out_the_same \
    test_features.py test_link.py)

.PHONY: help setup demo test test-hazards test-integration test-full test-rooms test-sanitizers golden fuzz-native check bench clean

help:
	@echo "make setup      install what is missing: Debian's HIP toolchain, .venv with hipcache and the test tools"
	@echo "make demo       examples/cmake compiled cold, warm, for other architectures and after an edit, beside plain clang;"
	@echo "                QUICK=1: one source, in a minute ('hipcache demo')"
	@echo "make test       types, lint, the tests without build tools (a sample of large matrices), a build by each of these"
	@echo "make test-hazards  what could make an object wrong (tests/hazards), links and the driver's header (tests/features)"
	@echo "make test-integration  build tools, packages, servers, browsers, campaigns (a sample, too)"
	@echo "make test-full  all of these with every case of every matrix, and the C code with sanitizers"
	@echo "make test-rooms some of them with clang 21 to 24, in roots of newer Debian (scripts/room.sh)"
	@echo "make test-sanitizers  the tests of lexer and bitcode, with ASan and UBSan"
	@echo "make fuzz-native SECONDS=60  random bytes for what C reads: records, lists, bitcode, sources, config files"
	@echo "make bench      hipcache beside plain clang, ccache and sccache"

setup:
	@scripts/setup.sh $(SETUP_ARGS) $(EXTRA)

demo: SETUP_ARGS := --required
demo: EXTRA := zstd
demo: setup
	@.venv/bin/hipcache demo $(if $(QUICK),,examples/cmake/src/*.hip --flags "-O3 -std=c++17 -Iexamples/cmake/include")

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy --strict
	.venv/bin/mypy --strict scripts
	.venv/bin/mypy --strict bench
	.venv/bin/python scripts/native.py warnings

# worksteal hands out neighbouring tests together, so that those of one costly fixture mostly share it. (loadgroup says
# so exactly, but pytest 9.2 with xdist 3.8 ignores the groups.)
test: check
	$(PYTEST) tests/unit tests/compile $(SMOKE) $(PYTEST_ARGS)

# Digests of what plain clang makes in these tests, so that `make test` need not compile it (tests/golden_of_all.py).
golden: setup
	rm -f build/golden && mkdir -p build && touch build/golden
	TEST_GOLDEN=$(CURDIR)/build/golden $(PYTEST) tests/compile tests/hazards tests/features $(PYTEST_ARGS)
	sort -u build/golden >tests/golden_digests.txt

test-hazards: setup
	$(PYTEST) tests/hazards tests/features $(PYTEST_ARGS)

test-integration test-full: SETUP_ARGS := --builders --iree --remote
test-integration: setup
	$(PYTEST) $(INTEGRATION) $(PYTEST_ARGS)

# And once more with every file of a test watched by the resident.
test-full: export TEST_FULL := 1
test-full: check
	$(PYTEST) $(PYTEST_ARGS)
	TEST_RESIDENT=1 $(PYTEST) $(addprefix tests/hazards/test_, hazards_*.py direct_damage.py) \
	    $(addprefix tests/compile/test_direct, .py _library.py _settings.py)
	.venv/bin/python scripts/native.py sanitizers
	.venv/bin/python scripts/native.py fuzz $(SECONDS)

test-sanitizers: setup
	.venv/bin/python scripts/native.py sanitizers

fuzz-native: setup
	.venv/bin/python scripts/native.py fuzz $(SECONDS)

test-rooms:
	@scripts/test_rooms.sh $(ROOMS)

bench:
	@scripts/setup.sh --iree test bench
	.venv/bin/python bench/run.py --out build/bench $(BENCH_ARGS)
	.venv/bin/python bench/warm.py $(WARM_ARGS)
	.venv/bin/python bench/link.py $(LINK_ARGS)
	.venv/bin/python -c 'import iree.compiler' 2>/dev/null || exit 0; .venv/bin/python bench/modules.py $(MODULES_ARGS)
	.venv/bin/python bench/failing.py $(FAILING_ARGS)

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
