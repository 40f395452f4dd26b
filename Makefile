# Every target sets up what it needs: an environment in .venv from uv.lock, with uv from the path or else in .venv-tools.

PYTHON ?= python3
DEMO ?= demo
PYTEST_ARGS ?=
WORKERS ?= 2
CONNECT ?= tests/end_to_end/test_blob_to_replica.py tests/gold tests/silver
CHAOS ?= 20
SOAK ?= 1000
SCALE ?= 1.0
MATRIX ?= 3.11-4.0 3.12-4.0 3.11-4.1 3.12-4.1 3.12-4.2.0
MATRIX_TESTS ?= tests/bronze tests/silver tests/gold tests/end_to_end/test_blob_to_replica.py
SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')

UV := $(shell command -v uv 2>/dev/null || echo .venv-tools/bin/uv)
BIN := .venv/bin
READY := .venv/.ready

export UV_PROJECT_ENVIRONMENT := .venv
unexport VIRTUAL_ENV
unexport PYTHONPATH
# or each process of the tests compiles all that it imports
unexport PYTHONDONTWRITEBYTECODE

FORMATS := $(filter-out __init__,$(basename $(notdir $(wildcard silver/formats/*.py))))
CELLS := $(MATRIX:%=test-matrix-%)

.PHONY: help setup demo check check-bronze-silver check-others test test-slow test-all test-long test-format test-browser report-picture test-bundle test-connect test-kafka test-wheel test-matrix $(CELLS) property chaos soak limits mutations real lint format clean benchmark scale benchmark-versus errors-page reference-pages docs

help:
	@echo "make setup    the environment from the lock"
	@echo "make demo     the sample feeds through bronze, silver and gold into ./$(DEMO)"
	@echo "make check    lint, and the tests that need no Spark: a minute and a half"
	@echo "make test     the tests, in WORKERS=$(WORKERS) processes at once, but for those of test-slow and test-long: ten minutes on two cores"
	@echo "make test-slow the tests that take more than some five seconds each: more than an hour"
	@echo "make test-all both of them, as CI runs them"
	@echo "make test-long the tests that take minutes each"
	@echo "make test-format FORMAT=NAME  what concerns one format: decoder, fixtures, broken messages, detection, registry"
	@echo "make test-browser  the report in Chromium, which the machine must have (or MAINSTEM_CHROMIUM names)"
	@echo "make report-picture  the picture of the report in the docs, by Chromium from the report of make demo"
	@echo "make test-connect  each command on a catalog and on Spark Connect, then the frame tests on Spark Connect"
	@echo "make test-bundle  the Databricks bundle by the command line of this machine (or MAINSTEM_DATABRICKS names it)"
	@echo "make test-wheel  the wheel alone in an empty environment: each task of the Databricks jobs, by its own command line"
	@echo "make test-matrix the layers' tests on each Python and Spark: MATRIX=\"$(MATRIX)\""
	@echo "make property random source databases in every format, at length, and lost parts of a lakehouse (SEED=… repeats one)"
	@echo "make chaos    runs killed at every named point, and CHAOS=$(CHAOS) times at random (SEED=… repeats one)"
	@echo "make soak     SOAK=$(SOAK) rounds over ten tables in one process: heap, threads, files and caches do not grow"
	@echo "make limits   a message of 500 MB, fifty new tables beside a busy one: memory and threads stay bounded"
	@echo "make mutations each guard against lost and doubled changes switched off in a copy: a named test fails"
	@echo "make real     real databases, Debezium and a real broker, against the replicas (SEED=… repeats one)"
	@echo "make test-kafka  a real broker: topics land as they are, a continuous run takes up what comes"
	@echo "make benchmark the goals of speed and memory, measured (SCALE=0.001 only tries it); into docs/performance.md"
	@echo "make benchmark-versus the same feed by a notebook, dlt and AUTO CDC (SCALE=0.01 only tries it); into docs/performance.md"
	@echo "make scale    a round in an old, a wide and a deep lakehouse against a small one (SCALE=0.01 only tries it); into docs/performance.md"
	@echo "make errors-page  docs/errors.md from the explanations of the error codes"
	@echo "make reference-pages  docs/reference from the configuration's models and the tables' schemas"
	@echo "make docs     the documentation site into build/site; a dead link fails"
	@echo "make lint     format check, ruff, mypy, import contracts"
	@echo "make format   rewrite the code in the house style"
	@echo "make clean    remove what the other targets made"

setup: $(READY)

$(READY): pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --quiet
	@touch $@

.venv-tools/bin/uv:
	$(PYTHON) -m venv .venv-tools
	.venv-tools/bin/python -m pip install --quiet uv

demo: $(READY)
	$(BIN)/mainstem demo --folder $(DEMO)

# a test file is one worker's, which has a Spark session of its own; tests/conftest.py puts the files in order
BY_FILE = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# A choice of tests (PYTEST_ARGS) is one run. All of them are two: those without Spark in processes that share nothing.
test: $(READY)
ifeq ($(strip $(PYTEST_ARGS)),)
	$(MAKE) --no-print-directory --jobs 2 check-bronze-silver check-others
	$(BIN)/python -m pytest $(BY_FILE) -m "spark and not slow and not long"
else
	$(BIN)/python -m pytest $(BY_FILE) -m "not slow and not long" $(PYTEST_ARGS)
endif

test-slow: $(READY)
	$(BIN)/python -m pytest $(BY_FILE) -m "slow and not long" $(PYTEST_ARGS)

test-all: test test-slow

# Two processes that share nothing, half of the work each: for nine thousand short tests pytest-xdist takes a fifth of the processor time.
check: lint
	$(MAKE) --no-print-directory --jobs 2 check-bronze-silver check-others

check-bronze-silver: ROOMS := tests/bronze tests/silver
check-others: ROOMS := --ignore tests/bronze --ignore tests/silver

check-bronze-silver check-others: $(READY)
	$(BIN)/python -m pytest -m "not spark and not slow and not long" $(ROOMS) $(PYTEST_ARGS)

# the rest: pipelines that run many times each
test-long: $(READY)
	$(BIN)/python -m pytest $(BY_FILE) -m long $(PYTEST_ARGS)

# by name, in seconds and without Spark; what is missing first, for all else fails with it
test-format: $(READY)
	@$(if $(filter $(FORMAT),$(FORMATS)),,echo "no format '$(FORMAT)' in silver/formats: write make test-format FORMAT=NAME with one of: $(FORMATS)"; exit 2)
	$(BIN)/python -m pytest --maxfail 10 -m "not spark and not long" -k "$(FORMAT) or test_structure or page_on_formats" tests/architecture/test_structure.py tests/silver/formats/test_fixtures.py tests/silver/formats tests/silver/decoding tests/silver/detection tests/framework/cli/test_formats.py $(PYTEST_ARGS)

# apart from `test`: it needs a browser, and one more package to drive it
test-browser: $(READY)
	$(UV) sync --frozen --quiet --group browser
	MAINSTEM_BROWSER=1 $(BIN)/python -m pytest tests/framework/report/test_browser.py $(PYTEST_ARGS)

report-picture: $(READY)
	$(UV) sync --frozen --quiet --group browser
	$(BIN)/python -m documentation.report_picture $(DEMO)/report.html docs/images/report.png

# apart from `test`: it needs the Databricks command line, and is skipped without it
test-bundle: $(READY)
	MAINSTEM_BUNDLE=1 $(BIN)/python -m pytest tests/architecture/test_bundle_command_line.py tests/architecture/test_bundle_deploys.py $(PYTEST_ARGS)

# apart from `test`: it installs Spark once more, and starts it once a task
test-wheel: $(READY)
	MAINSTEM_WHEEL=1 $(BIN)/python -m pytest -s tests/architecture/test_wheel_commands.py $(PYTEST_ARGS)

# A cell is PYTHON-SPARK, in an environment of its own with the lock's versions of all but Spark. The Python must be on the
# path, or for uv to download.
test-matrix: $(CELLS)

$(CELLS): test-matrix-%: .matrix/%/.ready
	@echo "== Python $(firstword $(subst -, ,$*)), Spark $(lastword $(subst -, ,$*))"
	.matrix/$*/bin/python -m pytest $(MATRIX_TESTS) $(PYTEST_ARGS)

.matrix/%/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) venv --quiet --clear --python $(firstword $(subst -, ,$*)) $(@D)
	$(UV) export --frozen --quiet --no-hashes --no-emit-project --no-group bundle --output-file $(@D)/locked.txt
	grep -v -e '^pyspark=' -e '^py4j=' $(@D)/locked.txt > $(@D)/constraints.txt
	echo 'pyspark==$(lastword $(subst -, ,$*)).*' > $(@D)/spark.txt
	$(UV) pip install --quiet --python $(@D)/bin/python --group dev --editable . --constraint $(@D)/constraints.txt --override $(@D)/spark.txt
	@touch $@

test-connect: $(READY)
	MAINSTEM_PLATFORMS=1 $(BIN)/python -m pytest tests/end_to_end/test_platforms.py $(PYTEST_ARGS)
	SPARK_REMOTE='local[2]' SPARK_TESTING=1 $(BIN)/python -m pytest $(CONNECT) $(PYTEST_ARGS)

property: $(READY)
	MAINSTEM_SEED=$(SEED) MAINSTEM_SIZE=large $(BIN)/python -m pytest -s tests/end_to_end/test_random_feeds.py tests/end_to_end/test_lost_state.py tests/end_to_end/test_quality_defaults.py tests/gold tests/silver/changes tests/silver/formats tests/silver/decoding tests/silver/batches/test_open_halves.py tests/silver/operations/test_new_outcomes.py $(PYTEST_ARGS)

chaos: $(READY)
	MAINSTEM_SEED=$(SEED) MAINSTEM_CHAOS=$(CHAOS) $(BIN)/python -m pytest -s tests/end_to_end/test_crashes.py tests/end_to_end/test_rare_crashes.py tests/end_to_end/test_unusable_places.py tests/end_to_end/test_kills.py tests/end_to_end/test_killed_upkeep.py tests/end_to_end/test_lost_workers.py tests/end_to_end/test_bronze_rewritten.py $(PYTEST_ARGS)

limits: $(READY)
	MAINSTEM_LIMITS=1 $(BIN)/python -m pytest -s tests/end_to_end/test_limits.py $(PYTEST_ARGS)

soak: $(READY)
	MAINSTEM_SEED=$(SEED) MAINSTEM_SOAK=$(SOAK) $(BIN)/python -m pytest -s tests/end_to_end/test_soak.py $(PYTEST_ARGS)

# apart from `test`: it copies the project, and starts Spark for each guard
mutations: $(READY)
	MAINSTEM_MUTATIONS=1 $(BIN)/python -m pytest tests/architecture/test_mutations.py $(PYTEST_ARGS)

real: $(READY)
	$(UV) sync --frozen --quiet --group real
	MAINSTEM_SEED=$(SEED) $(BIN)/python -m pytest -s -m real tests/real $(PYTEST_ARGS)

# a slice of `real` without databases: few minutes, and Maven brings the broker
test-kafka: $(READY)
	$(UV) sync --frozen --quiet --group real
	$(BIN)/python -m pytest -m real -k "topics_land or detect_and_init or begins_where or continuous" tests/real/test_kafka.py $(PYTEST_ARGS)

benchmark: $(READY)
	$(BIN)/python -m tests.benchmarks --scale $(SCALE) --into docs/performance.md

# apart from `benchmark`: the other tools are installed into environments of their own, in .versus
benchmark-versus: $(READY) | $(UV)
	$(BIN)/python -m tests.benchmarks.versus --scale $(SCALE) --uv $(UV) --into docs/performance.md

# hours, and some ten GB of disk: a thousand rounds in one process, ten thousand tables, fifty million changes
scale: $(READY)
	$(BIN)/python -m tests.benchmarks.scale --scale $(SCALE) --into docs/performance.md

errors-page: $(READY)
	$(BIN)/python -m mainstem explain --markdown > docs/errors.md.new
	mv docs/errors.md.new docs/errors.md

reference-pages: $(READY)
	$(BIN)/python -m documentation

# In an environment of its own: the site needs none of the project's packages. Not --quiet: it also silences the warnings
# that --strict counts.
docs: .venv-docs/.ready
	.venv-docs/bin/mkdocs build --strict
	@echo "build/site/index.html"

.venv-docs/.ready: pyproject.toml uv.lock | $(UV)
	UV_PROJECT_ENVIRONMENT=.venv-docs $(UV) sync --frozen --quiet --only-group docs
	@touch $@

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-tools .venv-docs .matrix .versus .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist spark-warehouse $(DEMO)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
