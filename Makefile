# make run    set everything up and do the main job on Python's own sources: a tokenizer and a tokenized dataset in out/quickstart
# make test   set everything up and run lint and all tests
# make lint   ruff and mypy        make bench   speed against peers        make golden   rewrite the golden files of the tests
# make fuzz   a hundred thousand hostile inputs       make test-deep   the tests that take minutes
# make test-bounds   the tests with bounds checks in all kernels, and with fences around what kernels are given

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.test-ready
# Two versions of tokenizers cannot live in one environment: the benchmarks have a second one.
NEXT := $(VENV)/next
# mosaicml-streaming wants NumPy before 2.2, and torch, of which this release has a small build.
LOADERS := $(VENV)/loaders

.PHONY: run test test-deep test-bounds lint bench golden fuzz clean

run: $(READY)
	$(BIN)/tokenmill build configs/quickstart.yaml --overwrite

# On all cores; a file of tests stays together, since its tests share what they compile and build.
PYTEST = $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile

test: lint
	$(PYTEST) -m "not deep"
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not jit and not slow and not deep" $(JIT_FREE_TESTS)

test-deep: $(TEST_READY)
	$(PYTEST) -m deep

# Numba's cache does not know whether bounds are checked, so these kernels have a folder of their own. What starts processes of its
# own (`slow`) is left out: fences are around the kernels of this one.
test-bounds: $(TEST_READY)
	NUMBA_BOUNDSCHECK=1 TOKENMILL_FENCED=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/bounds $(PYTEST) -m "not deep and not slow"

lint: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

golden: $(TEST_READY)
	TOKENMILL_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q -k golden

# BENCH="encode train" runs some parts, BENCH=--quick tries all of them at small sizes.
bench: $(VENV)/.bench-ready $(NEXT)/.ready $(LOADERS)/.ready
	$(BIN)/python -m benchmarks $(BENCH)

# The tests that run once more as plain Python, without compiled kernels.
JIT_FREE_TESTS := tests/test_merge.py tests/test_bpe.py tests/test_tables.py tests/test_word_counts.py tests/test_scan.py \
	tests/test_tokenizer.py tests/test_trainers.py tests/test_native_format.py tests/test_scan_options.py \
	tests/test_wordpiece.py tests/test_wordpiece_training.py tests/test_formats_vocab_txt.py tests/test_score_merge.py \
	tests/test_packing.py tests/test_bpe_options.py tests/test_normalizers.py tests/test_character_maps.py tests/test_char_models.py \
	tests/test_report.py tests/test_extension.py tests/test_postprocessors.py tests/test_special_text.py tests/test_added_tokens.py \
	tests/test_parquet_footer.py tests/test_room.py tests/test_secret_hashes.py

$(READY): setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(TEST_READY): setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,torch,jax]"
	touch $@ $(READY)

$(VENV)/.bench-ready: setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	touch $@ $(READY)

$(NEXT)/.ready: Makefile
	test -x $(NEXT)/bin/python || $(PYTHON) -m venv $(NEXT)
	$(NEXT)/bin/python -m pip install --quiet --disable-pip-version-check "tokenizers==1.0.0rc3" "pyarrow>=25,<26" "numpy>=2.2,<2.5"
	touch $@

$(LOADERS)/.ready: Makefile
	test -x $(LOADERS)/bin/python || $(PYTHON) -m venv $(LOADERS)
	$(LOADERS)/bin/python -m pip install --quiet --disable-pip-version-check "mosaicml-streaming==0.13.0" "torch==2.13.0"
	touch $@

# A hundred thousand damaged and random inputs, and as many folders of files under wrong names; about half an hour.
fuzz: $(TEST_READY)
	$(BIN)/python -m tests.fuzzing 100000
	$(BIN)/python -m tests.fuzzing 100000 0 fuzz_folders

clean:
	rm -rf $(VENV) out build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
