# What a person says to qfleet. Each verb sets up what it needs; `make help` lists them.
#
# Settings follow a verb as NAME=value: make training WORKERS=4 STORAGE=gs://bucket/path
# They go to the program's own parser, which refuses the ones that it does not know.
# PYTHON=/path/to/python3.11 alone is for make: the interpreter that the environments are made with.
#
# Names here are lower case and `override`, so that no setting can change them.

override SHELL := /bin/bash
override .SHELLFLAGS := -euo pipefail -c
override .DEFAULT_GOAL := help
.SUFFIXES:
.NOTPARALLEL:

# MAKEOVERRIDES holds the NAME=value words of the command line, a backslash before each blank and
# backslash, each dollar doubled. Taken apart into words, undone, and quoted for the shell:
override empty :=
override blank := $(empty) $(empty)
override tab := $(empty)	$(empty)
override quote = '$(subst ','\'',$1)'
override words := $(subst \\,<backslash>,$(subst <,<less>,$(MAKEOVERRIDES)))
override words := $(subst \$(tab),<tab>,$(subst \$(blank),<blank>,$(words)))
override words := $(filter-out PYTHON=% PYTHON:=%,$(words))
override undone = $(subst <blank>,$(blank),$(subst <tab>,$(tab),$(subst $$$$,$$,$1)))
override whole = $(subst <less>,<,$(subst <backslash>,\,$(call undone,$1)))
override settings = $(foreach word,$(words),$(call quote,$(call whole,$(word))))
override no_settings = $(if $(words),$(error make $@ takes no settings, but was given $(settings)))

# A setting arrives as an argument, once: not in the environment as well, where make would expand it.
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES $(foreach word,$(words),$(firstword $(subst =, ,$(word))))

override setup := ./setup.sh $(call quote,$(value PYTHON))
# TensorFlow Quantum is installed where a verb asks for it.
override worker := .venv worker $(if $(filter SIMULATOR=tfq SIMULATOR:=tfq,$(words)),tfq)
override dev := .venv worker dev
override referee := .venv worker dev tfq
override tensorboard := .venv-tensorboard tensorboard
override peers := .venv-peers peers
override launch := .venv-launch launch
# Not empty where the job is to run in a cluster: said here, else in the environment.
override targets := $(or $(filter TARGET=% TARGET:=%,$(words)),TARGET=$(QFLEET_TARGET))
override cluster := $(filter TARGET=k8s TARGET:=k8s,$(lastword $(targets)))

.PHONY: help
help: ## list the verbs
	@printf 'make VERB [SETTING=value ...], where VERB is one of\n\n'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 22
	@printf '\nSettings and what they mean: see README.md, or .venv/bin/python -m training --help\n'

.PHONY: training
training: ## train on this machine, or with TARGET=k8s in a cluster: make training WORKERS=2 EPOCHS=50
	@$(setup) $(if $(cluster),$(launch),$(worker))
	@$(if $(and $(cluster),$(filter %=auto,$(words))),$(setup) $(worker))
	@exec $(if $(cluster),.venv-launch/bin/python -m launch run,.venv/bin/python -m training) $(settings)

.PHONY: dataset
dataset: ## write a data set that many trainings read: make dataset TRAIN_EXAMPLES=1000000 STORAGE=gs://bucket/path
	@$(setup) $(worker)
	@exec .venv/bin/python -m common.data $(settings)

.PHONY: inference
inference: ## score the latest finished run, or RUN=name, on its test split or INPUT=file, in PARALLEL processes or pods
	@$(setup) $(if $(cluster),$(launch),$(worker))
	@exec $(if $(cluster),.venv-launch/bin/python -m launch infer,.venv/bin/python -m inference) $(settings)

.PHONY: runs
runs: ## list the runs below STORAGE, compare and delete them
	@$(setup) $(worker)
	@exec .venv/bin/python -m common.runs $(settings)

.PHONY: tensorboard
tensorboard: ## show the runs below STORAGE, or RUN=name alone, while they train and afterwards
	@$(setup) $(if $(cluster),$(launch),$(tensorboard))
	@exec $(if $(cluster),.venv-launch/bin/python -m launch tensorboard,.venv-tensorboard/bin/python -m training.tensorboard_launcher) $(settings)

.PHONY: images push
images: ## build the images that pods run: make images BASE=image ENGINE=podman GPU=1
	@exec images/build.sh $(settings)

push: ## push them and keep their digests for the manifests: make push IMAGE=registry/name
	@exec images/push.sh $(settings)

.PHONY: manifests
manifests: ## write k8s/ anew, and your own into an overlay: make manifests OVERLAY=gke IMAGE=registry/name STORAGE=gs://...
	@$(setup) $(launch)
	@exec .venv-launch/bin/python -m launch.manifests $(settings)

.PHONY: delete-training delete-inference delete-tensorboard
delete-training: ## take a training job out of the cluster; what it wrote stays
delete-inference: ## the same for an inference job
delete-tensorboard: ## the same for TensorBoard
delete-training delete-inference delete-tensorboard:
	@$(setup) $(launch)
	@exec .venv-launch/bin/python -m launch delete $(@:delete-%=%) $(settings)

.PHONY: test
test: ## run the unit and integration tests
	@$(no_settings)$(setup) $(referee)
	@$(setup) $(tensorboard)
	@$(setup) $(peers)
	@.venv/bin/python -m pytest --numprocesses=2 --dist=loadfile

.PHONY: verify
verify: ## check style, types, the import law and the files that are generated
	@$(no_settings)$(setup) $(dev)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/python -m pytest --quiet tests/unit/test_imports.py
	@.venv/bin/python -m common.settings --check README.md
	@.venv/bin/python -m launch.manifests --check

.PHONY: quality
quality: ## train every model with five seeds and print the table of the README: 10 minutes
	@$(no_settings)$(setup) $(worker)
	@.venv/bin/python benchmarks/quality.py

.PHONY: benchmark
benchmark: ## time the simulator beside its peers: 20 minutes, or 3 with QUICK=1
	@$(setup) $(referee)
	@$(setup) $(peers)
	@exec .venv/bin/python -m benchmarks $(settings)

.PHONY: fleet
fleet: ## simulate a training on 1 to 10,000 workers that may be lost: make fleet QUBITS=16 TRAIN_EXAMPLES=100000 PREEMPTION_RATE=0.1
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec .venv/bin/python -m planning.fleet $(settings)

.PHONY: scaling
scaling: ## measure 1, 2, 4, 8 workers on this machine, or with TARGET=k8s in a cluster: 30 minutes, or one with QUICK=1
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec .venv/bin/python -m planning.scaling $(settings)

.PHONY: plan
plan: ## say beforehand what a training takes, and how many workers to train with: make plan QUBITS=16 APPLY=1
	@$(setup) $(worker)
	@$(if $(cluster),$(setup) $(launch))
	@exec .venv/bin/python -m planning $(settings)

.PHONY: settings-table
settings-table: ## write the table of settings in README.md anew
	@$(no_settings)$(setup) $(worker)
	@.venv/bin/python -m common.settings --write README.md

.PHONY: lock upgrade
lock: ## write requirements/*.txt from requirements/*.in, moving no version that need not move
upgrade: ## write requirements/*.txt with the newest versions that requirements/*.in allow
lock upgrade:
	@$(no_settings)$(setup) $(dev)
	@for name in worker worker-cpu worker-gpu tfq dev tensorboard peers launch storage; do \
		case $$name in \
			tfq | peers | worker-gpu) where='--python-platform x86_64-unknown-linux-gnu';; \
			worker-cpu) where='--universal --override requirements/worker-cpu.overrides';; \
			*) where=--universal;; \
		esac; \
		.venv/bin/uv pip compile --quiet $$where --generate-hashes --no-emit-index-url \
			--python-version 3.11 --custom-compile-command 'make lock' $(if $(filter upgrade,$@),--upgrade) \
			requirements/$$name.in --output-file requirements/$$name.txt; \
	done

.PHONY: e2e
e2e: ## test on a real cluster: KUBECONFIG's, or that of make cluster
	@$(no_settings)$(setup) $(dev)
	@$(setup) $(launch)
	@# Those that wait, for an image or a place, beside those that train.
	@.venv/bin/python -m pytest tests/e2e --numprocesses=2 --dist=loadfile -m 'not alone'
	@.venv/bin/python -m pytest tests/e2e -m alone

.PHONY: cluster cluster-down
cluster: ## start a Kubernetes of one node on this machine, with the operator and the images: 10 minutes the first time
	@$(no_settings)exec tests/e2e/cluster/up.sh

cluster-down: ## take it away with every process, mount, interface and rule of it; what was built stays
	@$(no_settings)exec tests/e2e/cluster/down.sh

.PHONY: infra-up infra-down
infra-up: ## make what qfleet needs on Google Cloud, see infra/README.md; DRY_RUN=1 prints the commands and what an hour costs
	@exec infra/up.sh $(settings)

infra-down: ## destroy what infra-up made, and nothing else; it says what is lost and asks
	@exec infra/down.sh $(settings)

.PHONY: clean
clean: ## remove the environments and caches; runs stay
	@$(no_settings)rm -rf .venv .venv-tensorboard .venv-peers .venv-launch
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis qfleet/native/built
	@find . -name __pycache__ -prune -exec rm -rf {} +
