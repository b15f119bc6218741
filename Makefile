# Entry points. Run `make help`. Each target installs its requirements first.
#
# Settings follow a target as NAME=value: make training WORKERS=4 STORAGE=gs://bucket/path
# They are passed to the program, which rejects unknown names.
# PYTHON=/path/to/python3.11 is read by make itself: the interpreter for the virtual environments.
#
# Variables here are lower case and `override`, so that no setting can change them. A variable of the
# environment or the command line is read with $(value), which does not run what is in it.

override SHELL := /bin/bash
override .SHELLFLAGS := -euo pipefail -c
override .DEFAULT_GOAL := help
.SUFFIXES:
.NOTPARALLEL:

# The NAME=value words of the command line, as make itself keeps them. Blanks and backslashes are escaped
# by a backslash, dollars are doubled. Split it into words, unescape them, and quote for the shell:
override empty :=
override blank := $(empty) $(empty)
override tab := $(empty)	$(empty)
override quote = '$(subst ','\'',$1)'
override origin := $(origin -*-command-variables-*-)
override given := $(if $(filter automatic,$(origin)),$(-*-command-variables-*-))
# Other white space is not escaped: what follows it would become a setting of its own.
override define newline


endef
override contains = $(if $(findstring $1,$2),yes)
override other_space = $(call contains,$(newline),$1)$(if $1,$(foreach code,r v f,$(call contains,$(call control,$(code)),$1)))
override control = $(subst .,,$(shell printf '\$1.'))
ifneq ($(strip $(call other_space,$(given)$(value PYTHON))),)
$(error a setting or PYTHON contains a line break or another control character: remove it)
endif
# make keeps one value of a name: its own command line has all of them, where the system shows it.
override twice := $(shell { tr '\0' '\n' </proc/$$PPID/cmdline | awk '/^[^-][^=]*=/ { \
	name = $$0; sub(/:*=.*/, "", name); \
	if (name in given && given[name] != $$0) { \
		print name " has two values, " given[name] " and " $$0; exit } \
	given[name] = $$0 }'; } 2>/dev/null)
ifneq ($(strip $(value twice)),)
$(error $(twice): give one of them)
endif
override words := $(subst \\,<backslash>,$(subst <,<less>,$(given)))
override words := $(subst \$(tab),<tab>,$(subst \$(blank),<blank>,$(words)))
# make keeps the last word first.
override reversed = $(if $1,$(call reversed,$(wordlist 2,$(words $1),$1)) $(firstword $1))
override words := $(strip $(call reversed,$(filter-out PYTHON=% PYTHON:=%,$(words))))
override undone = $(subst <blank>,$(blank),$(subst <tab>,$(tab),$(subst $$$$,$$,$1)))
override whole = $(subst <less>,<,$(subst <backslash>,\,$(call undone,$1)))
override settings = $(foreach word,$(words),$(call quote,$(call whole,$(word))))
override no_settings = $(if $(words),$(error make $@ takes no settings, but was given $(settings)))

# Without bytecode, each process compiles TensorFlow again, for 4 seconds.
unexport PYTHONDONTWRITEBYTECODE
# A setting is passed once, as an argument: make would expand it in the environment.
unexport PYTHON MAKEFLAGS MFLAGS MAKEOVERRIDES $(foreach word,$(words),$(firstword $(subst =, ,$(word))))

override setup := ./setup.sh $(call quote,$(value PYTHON))
# TensorFlow Quantum needs another TensorFlow, so it has an environment of its own.
override simulator := $(lastword $(filter SIMULATOR=% SIMULATOR:=%,SIMULATOR=$(value QFLEET_SIMULATOR) $(words)))
override tfq := .venv-tfq tfq
override worker := $(if $(filter %=tfq,$(simulator)),$(tfq),.venv worker)
override python := $(firstword $(worker))/bin/python
override dev := .venv worker dev
override launch := .venv-launch launch
override tensorboard := $(launch) tensorboard
override devices := $(launch) devices
override peers := .venv-peers peers
override wheel := .venv-wheel wheel
# Not empty if the job runs in a cluster: from the command line, else from the environment.
override targets := $(or $(filter TARGET=% TARGET:=%,$(words)),TARGET=$(value QFLEET_TARGET))
override cluster := $(filter TARGET=k8s TARGET:=k8s,$(lastword $(targets)))
override client := $(if $(cluster),.venv-launch/bin/python,$(python))

.PHONY: help
help: ## list the targets
	@printf 'make TARGET [SETTING=value ...], where TARGET is one of\n\n'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 22
	@printf '\nAll settings: docs/configuration.md; those of training: .venv/bin/python -m qfleet train --help\n'

.PHONY: training
training: ## train on this machine, or with TARGET=k8s or slurm in a cluster: make training WORKERS=2 EPOCHS=50
	@$(setup) $(if $(cluster),$(launch),$(worker))
	@$(if $(and $(cluster),$(filter %=auto,$(words))),$(setup) $(worker))
	@exec $(client) -m qfleet train $(settings)

.PHONY: dataset
dataset: ## write a data set for many trainings: make dataset TRAIN_EXAMPLES=1000000 STORAGE=gs://bucket/path
	@$(setup) $(worker)
	@exec $(python) -m qfleet data $(settings)

.PHONY: calibration
calibration: ## list the devices with calibrations, or write one for NOISE: make calibration DEVICE=ibm_sherbrooke
	@$(setup) $(devices)
	@exec .venv-launch/bin/python -m qfleet calibrate $(settings)

.PHONY: inference
inference: ## score the latest finished run, or RUN=name, on its test split or INPUT=file, in PARALLELISM processes or pods
	@$(setup) $(if $(cluster),$(launch),$(worker))
	@exec $(client) -m qfleet infer $(settings)

.PHONY: study
study: ## compare trainings, here or with TARGET=k8s or slurm: make study NAME=widths SEEDS=0..4 QUBITS=8,12 BUDGET=2h
	@$(setup) .venv worker $(if $(filter SEARCH=tpe SEARCH:=tpe EARLY_STOPPING=halving EARLY_STOPPING:=halving,$(words)),studies)
	@$(if $(findstring tfq,$(simulator)),$(setup) $(tfq))
	@$(if $(cluster),$(setup) $(launch))
	@exec .venv/bin/python -m qfleet study $(settings)

.PHONY: search
search: ## find circuits of few CNOTs for a Hamiltonian, a state or data: make search NAME=h2 DATA=h2:0.74 SEEDS=0..4 BUDGET=5min
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec $(python) -m qfleet search $(settings)

.PHONY: runs
runs: ## list the runs below STORAGE or the trials of STUDY; compare, export, promote and delete them
	@$(setup) .venv worker $(if $(filter EXPORT=% EXPORT:=%,$(words)),mlflow)
	@exec .venv/bin/python -m qfleet runs $(settings)

.PHONY: tensorboard
tensorboard: ## show all runs below STORAGE, or only RUN=name, during and after training
	@$(setup) $(if $(cluster),$(launch),$(tensorboard))
	@exec .venv-launch/bin/python -m qfleet tensorboard $(settings)

.PHONY: images push
images: ## build the container images: make images BASE=image ENGINE=podman GPU=1, or from a release: WHEEL=file
	@$(if $(filter-out WHEEL=%,$(filter WHEEL=% GPU=1,$(words)) $(if $(filter WHEEL=%,$(words)),,wheel)),$(setup) $(wheel))
	@$(if $(filter WHEEL=%,$(words)),,$(setup) .venv worker)
	@exec images/build.sh $(settings)

push: ## push the images and record their digests for the manifests: make push IMAGE=registry/name
	@exec images/push.sh $(settings)

.PHONY: manifests
manifests: ## regenerate k8s/, and an overlay with your settings: make manifests OVERLAY=gke IMAGE=registry/name STORAGE=gs://...
	@$(setup) $(launch)
	@exec .venv-launch/bin/python -m launch.manifests $(settings)

.PHONY: delete-training delete-inference delete-tensorboard
delete-training: ## delete a training job from the cluster; its run stays in storage
delete-inference: ## delete an inference job
delete-tensorboard: ## delete the TensorBoard deployment
delete-training delete-inference delete-tensorboard:
	@$(setup) $(launch)
	@exec .venv-launch/bin/python -m qfleet cluster delete $(@:delete-%=%) $(settings)

# Many tests wait for processes: four run at a time, also on two CPUs. Each takes up to 4 GB. File by file:
# what a file shares, such as a group of processes, is started once. The order is that of the folders.
override slowest := --durations=20 --durations-min=5
override pytest := .venv/bin/python -m pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder $(slowest)
# Files with the marker of a tier, to collect no others.
override marked = $$(grep -rlw --include='test_*.py' 'mark\.$(1)' tests | sort)
# TensorFlow Quantum is the referee of these tests.
override pytest_tfq := .venv-tfq/bin/python -m pytest --numprocesses=2 --dist=worksteal $(slowest) \
	tests/tfq $(call marked,tfq)

.PHONY: test test-tfq test-rest test-all test-adapters test-native test-infra test-nightly test-changed
test: ## run the default tests: 5 minutes
	@$(no_settings)$(setup) $(dev)
	@$(setup) $(tensorboard)
	@$(pytest) tests/integration tests/unit -m default

test-tfq: ## run the tests with TensorFlow Quantum, in its environment
	@$(no_settings)$(setup) $(tfq)
	@$(pytest_tfq) -m tfq

test-all: test test-rest ## run all tests but those that need a cluster: 25 minutes

test-rest: test-environments test-tfq
	@# The longest files come first.
	@$(pytest) tests/native tests/slurm tests/exhaustive tests/infra \
		$(call marked,exhaustive) $(call marked,native) -m 'infra or exhaustive or native'

test-native: test-environments ## run the tests of the C++ engine: sanitizers, other processors
	@$(pytest) tests/native $(call marked,native) -m native

test-infra: test-environments ## run the tests of setup.sh and the Google Cloud scripts
	@$(pytest) tests/infra -m infra

test-nightly: test-environments ## run the tests that take longest: more than an hour
	@$(setup) $(peers)
	@.venv-peers/bin/python -m qfleet.native >/dev/null
	@$(pytest) --dist=worksteal -m nightly

test-adapters: ## run the tests of the adapters: PyTorch, JAX, Keras 3, PennyLane; in an environment of 5 GB
	@$(no_settings)$(setup) $(peers)
	@.venv-peers/bin/python -m qfleet.native >/dev/null
	@.venv-peers/bin/python -m pytest --numprocesses=2 --dist=worksteal $(slowest) \
		--confcutdir=tests/adapters tests/adapters

gpu-check: ## build, test and measure the engine on this machine's GPU, without network: DEVICE=host practises
	@exec tests/gpu_check.sh $(call quote,$(value PYTHON)) $(settings)

test-changed: test-environments ## run the tests that your changes since branch main can affect
	@files=$$(.venv/bin/python -m tools.changed_tests main); [[ -z $$files ]] || \
		{ $(pytest) -m default $$files && \
		.venv-tfq/bin/python -m pytest -m tfq $$files; } || [[ $$? == 5 ]]

.PHONY: test-environments
test-environments:
	@$(no_settings)$(setup) $(dev)
	@$(setup) $(tfq)
	@$(setup) $(tensorboard)

.PHONY: chaos
chaos: ## train with random faults and compare the weights: make chaos JOBS=20 SEED=1, TARGET=k8s for a cluster
	@$(setup) $(dev)
	@exec .venv/bin/python -m chaos $(settings)

.PHONY: audit
audit: ## compare the locks with reviewed advisories, and with an advisory service if one is reached
	@$(no_settings)$(setup) $(dev)
	@.venv/bin/python -m tools.audit
	@service=$$(.venv/bin/python -m tools.audit --service); [[ -z $$service ]] || \
		.venv/bin/python -m tools.audit --pip-audit .venv/bin/pip-audit "$$service"

.PHONY: verify
verify: docs audit ## check style, types, prose, commit messages, import rules, links, generated files and advisories
	@$(no_settings)$(setup) $(dev)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/python -m tools.prose_lint
	@.venv/bin/python -m tools.commit_titles
	@git ls-files '*.cc' '*.h' '*.cu' | xargs .venv/bin/clang-format --dry-run --Werror
	@git ls-files '*.sh' .ci/run | xargs .venv/bin/shellcheck --external-sources --source-path=SCRIPTDIR:.
	@.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@.venv/bin/python -m pytest --quiet tests/unit/test_imports.py
	@.venv/bin/python -m common.settings --check docs/configuration.md
	@.venv/bin/python -m tools.public_surface --check
	@.venv/bin/python -m benchmarks.documentation --check
	@.venv/bin/python -m launch.manifests --check

.PHONY: docs
docs: ## build the documentation in site/, with strict links
	@$(no_settings)$(setup) $(dev)
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo 'Open site/index.html; for its search: .venv/bin/python -m http.server --directory site'

.PHONY: wheel
wheel: ## build the wheel of the library for Linux x86_64 in dist/, or PLATFORM=linux-aarch64, macos-arm64 or cuda
	@$(setup) $(wheel)
	@$(setup) .venv worker
	@exec .venv-wheel/bin/python -m tools.wheel $(foreach word,$(words),$(call quote,$(call whole,$(patsubst PLATFORM=%,%,$(word)))))

.PHONY: release
release: ## build, check and hash the wheels of this version in dist/; CUT=0.7.0 writes a version and its changelog first
	@$(setup) $(wheel)
	@$(setup) .venv worker
	@exec .venv-wheel/bin/python -m tools.release $(foreach word,$(words),$(call quote,$(call whole,$(patsubst CUT=%,--cut=%,$(word)))))

.PHONY: quality
quality: ## train every model with five seeds and print the quality table: 2 minutes
	@$(no_settings)$(setup) $(worker)
	@.venv/bin/python benchmarks/quality.py

.PHONY: benchmark
benchmark: ## compare the simulator's speed with its peers: 45 minutes, or 3 with QUICK=1; RESUME=1 continues
	@$(setup) .venv worker
	@$(setup) $(tfq)
	@$(setup) $(peers)
	@exec .venv/bin/python -m benchmarks $(settings)

.PHONY: fleet
fleet: ## simulate training on 1 to 10,000 preemptible workers: make fleet QUBITS=16 TRAIN_EXAMPLES=100000 PREEMPTION_RATE=0.1
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec $(python) -m qfleet fleet $(settings)

.PHONY: plan
plan: ## predict training time and cost, and recommend the number of workers, which SCALING=1 measures, or the cost of a search: make plan QUBITS=16 APPLY=1
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec $(python) -m qfleet plan $(settings)

.PHONY: settings-table
settings-table: ## regenerate the table of settings in docs/configuration.md
	@$(no_settings)$(setup) $(worker)
	@.venv/bin/python -m common.settings --write docs/configuration.md

# GROUP, GROUP:BASE with the versions of another group, or GROUP+BASE, installed on top of that: without
# its packages.
override groups := installer worker gpu+worker studies+worker mlflow+worker dev+worker tfq launch tensorboard:launch \
	devices+launch peers storage wheel

.PHONY: lock upgrade
lock: ## regenerate requirements/*.txt from the groups of pyproject.toml, keeping versions where possible
upgrade: ## regenerate requirements/*.txt with the newest allowed versions
lock upgrade:
	@$(no_settings)$(setup) $(worker)
	@for entry in $(groups); do \
		group=$${entry%%[:+]*} base=requirements/$${entry##*[:+]}.txt options=(); \
		[[ $$entry != *[:+]* ]] || options+=(--constraint $$base); \
		[[ $$entry != *+* ]] || options+=($$(sed -nE 's/^([A-Za-z0-9._-]+)==[^;]*$$/--no-emit-package=\1/p' $$base)); \
		case $$group in \
			gpu | tfq | peers) options+=(--python-platform x86_64-unknown-linux-gnu);; \
			*) options+=(--universal);; \
		esac; \
		[[ ! -f requirements/$$group.overrides ]] || options+=(--override requirements/$$group.overrides); \
		.uv/bin/uv pip compile --quiet "$${options[@]}" --only-binary :all: --generate-hashes --no-emit-index-url \
			--no-annotate --python-version 3.11 --custom-compile-command 'make lock' \
			$(if $(filter upgrade,$@),--upgrade) --group $$group --output-file requirements/$$group.txt; \
	done

.PHONY: e2e
e2e: ## run the end-to-end tests on the cluster of KUBECONFIG, or of make cluster
	@$(no_settings)$(setup) $(dev)
	@$(setup) $(launch)
	@# These tests mostly wait for pods: four run at a time, each in its own namespaces.
	@$(pytest) tests/e2e -m 'not nightly'

.PHONY: e2e-nightly
e2e-nightly: ## run the end-to-end tests that take longest, on the same cluster
	@$(no_settings)$(setup) $(dev)
	@$(setup) $(launch)
	@# One at a time: some stop the operator or a node.
	@.venv/bin/python -m pytest tests/e2e -m nightly

.PHONY: cluster cluster-down
cluster: ## start a one-node Kubernetes on this machine, with operator and images: 10 minutes the first time
	@$(no_settings)exec tests/e2e/cluster/up.sh

cluster-down: ## remove that cluster with all its processes, mounts, interfaces and rules; build outputs stay
	@$(no_settings)exec tests/e2e/cluster/down.sh

.PHONY: infra-up infra-down
infra-up: ## create the Google Cloud resources (docs/kubernetes.md#google-cloud); DRY_RUN=1 prints commands and hourly cost
	@exec infra/up.sh $(settings)

infra-down: ## delete the resources of infra-up after confirmation
	@exec infra/down.sh $(settings)

.PHONY: clean
clean: ## remove environments and caches; runs stay
	@$(no_settings)rm -rf .uv .venv .venv-* site dist
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis qfleet/native/built
	@find . -name __pycache__ -prune -exec rm -rf {} +
