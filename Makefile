# make demo | test | test-full | test-rooms | bench | setup, each from a fresh clone. `make setup` installs what is missing.

# Where nvcc is installed too, ROCm's own scripts would choose NVIDIA.
export HIP_PLATFORM := amd
# Else each engine of a test would compile its modules, and each worker pytest's form of the tests.
unexport PYTHONDONTWRITEBYTECODE
# The newest CMake and Ninja, which setup puts there, before the system's.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Two more than there are cores: tests wait for locks, clocks and servers.
WORKERS ?= $(shell expr $$(nproc) + 2)
PYTEST_ARGS ?=
BENCH_ARGS ?=
WARM_ARGS ?=
LINK_ARGS ?=
MODULES_ARGS ?=
FAILING_ARGS ?=
# SUITE:CLANG ... (default: all)
ROOMS ?=

.PHONY: help setup demo test test-full test-rooms check bench clean

help:
	@echo "make setup      install what is missing: Debian's HIP toolchain, .venv with hipcache and the test tools"
	@echo "make demo       the example built cold, warm, with other architectures and after an edit, beside plain clang"
	@echo "make test       types, lint, all tests (a sample of the large matrices)"
	@echo "make test-full  the same with every case of every matrix"
	@echo "make test-rooms some of them with clang 21 to 24, in roots of newer Debian (scripts/room.sh)"
	@echo "make bench      hipcache beside plain clang, ccache and sccache"

# `make test` also builds packages and IREE modules; who tries the demo need not have what these take.
setup:
	@scripts/setup.sh $(SETUP_ARGS) test

demo: setup
	@.venv/bin/python scripts/demo.py

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy --strict
	.venv/bin/mypy --strict scripts
	.venv/bin/mypy --strict bench

# worksteal hands out neighbouring tests together, so that those of one costly fixture mostly share it. (loadgroup says
# so exactly, but pytest 9.2 with xdist 3.8 ignores the groups.)
test: SETUP_ARGS := --builders --iree --remote
test: check
	.venv/bin/pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# And once more with every file of a test watched by the resident.
test-full: export TEST_FULL := 1
test-full: test
	TEST_RESIDENT=1 .venv/bin/pytest -n $(WORKERS) --dist worksteal tests/test_hazards_*.py \
	    tests/test_direct.py tests/test_direct_damage.py tests/test_direct_library.py tests/test_direct_settings.py

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
