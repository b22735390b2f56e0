# make play | demo | gallery | docs | pictures | quick | test | check | smoke | load-test | mutants | faults | bench-data | bench-pixel | pretrained | agents | bench-models | bench-evaluation | bench-training | bench-control | bench-play | bench-crowd | bench-dreams | bench-scale
# Every target makes .venv on its own; nothing has to be installed first but Python ≥ 3.11.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# For example --extra-index-url with an index of CPU builds of torch.
PIP_ARGS ?=
DOCS_STAMP := .venv/.docs-installed

.PHONY: play gallery pictures docs pretrained agents demo install check format quick test smoke load-test mutants faults bench-data bench-pixel bench-models bench-evaluation bench-training bench-control bench-play bench-crowd bench-dreams bench-scale clean

# Opens the predictors that come with acvp in the browser, each beside its real game.
play: install
	$(BIN)/acvp play

# Eight minutes of training, and a few of recording and evaluation; if interrupted, run it again to resume.
demo: install
	$(BIN)/acvp collect --env-id freeway --policy sticky-random --epsilon 0.3 --frames 20000 --out demo/freeway
	$(BIN)/acvp train --data demo/freeway --model pixel --preset cpu --minutes 8 --run demo/run
	test -e demo/run/evaluation.json || $(BIN)/acvp evaluate --predictors demo/run --data demo/freeway --windows 20 \
	  --shuffled-windows 0 --batch-size 20
	$(BIN)/acvp report --runs demo/run
	@echo 'The report: demo/run/report.html. Play it: $(BIN)/acvp play --predictors demo/run'

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	touch $(STAMP)

# A page in site/ that plays five dreams without a server, for any static host; needs npm once.
gallery: install
	rm -rf site
	$(BIN)/acvp export --web site --predictors freeway ms_pacman qbert seaquest space_invaders

# The pictures of README and docs/, from the packaged predictors and committed results: two minutes of a core.
pictures: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.pictures

# The documentation as pages in docs-site/; a broken link or anchor is an error.
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'Read it: $(PYTHON) -m http.server -d docs-site'

$(DOCS_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev,docs]'
	touch $(DOCS_STAMP)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_layers.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One thread per process: the tests share the cores, the networks in them are tiny.
test: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

# While working: all but the slowest tests, under 90 seconds on two cores.
quick: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto -m "not faults and not slow"

# Builds wheel and sdist, installs the wheel alone in a clean environment and uses it; .venv is not needed.
smoke:
	PIP_ARGS='$(PIP_ARGS)' $(PYTHON) -m tests.smoke

# The tests with processes, sockets, signals and clocks, beside ten busy loops.
load-test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.load

# Breaks the source in many small ways; each time a test must fail.
mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants --jobs 2

faults: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m faults

bench-data: install
	$(BIN)/python -m benchmarks.data

# Synthetic datasets of 10⁵ to 10⁷ frames, deleted afterwards: 3 GB of disk, about 30 minutes on one core.
bench-scale: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale

bench-pixel: install
	$(BIN)/python -m benchmarks.pixel_speed

# Five games, half an hour of training on two cores each: records, trains, evaluates and packages.
pretrained: install
	$(BIN)/python -m benchmarks.pixel

# Five DQN agents, 45 minutes of learning on one core each: trains, judges and packages; if interrupted, run it again to resume.
agents: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.agents

bench-models: install
	$(BIN)/python -m benchmarks.models

bench-evaluation: install
	$(BIN)/python -m benchmarks.evaluation

bench-training: install
	$(BIN)/python -m benchmarks.training

bench-control: install
	$(BIN)/python -m benchmarks.control

# A quarter of an hour in a browser; for a short one or another predictor see benchmarks/play.py.
bench-play: install
	$(BIN)/python -m benchmarks.play

# An hour of four pages at once, and a bad one beside a good one.
bench-crowd: install
	$(BIN)/python -m benchmarks.play_crowd

# Do predictions hold while an agent plays? About two hours on one core; see benchmarks/dreams.py for a short one.
bench-dreams: install
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.dreams

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis demo docs-site site
