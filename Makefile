# xling: the targets that a user and the continuous integration call. `make help` lists them.
#
# What a user gives on the command line (LANG=sw, SOURCE=..., ARGS='a=b c=d') is text: it reaches the
# recipes through the environment, as XLING_ARG_*, and is one word there (ARGS and RUNS: words between
# spaces). Neither make nor a shell reads it as code.

SHELL := bash
.SHELLFLAGS := -eufo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

SETTINGS := LANG PAIR SOURCE SIZE RECIPE TASK CKPT SUITE RUNS DATA OUT CLUSTER N PATHS ARGS DB PYTHON TORCH TORCH_INDEX WHEELS

# A setting counts only when it stands on the command line: LANG in the environment is the locale.
is_given = $(filter command,$(firstword $(origin $1)))
$(foreach s,$(SETTINGS),$(eval override export XLING_ARG_$s := $$(if $$(call is_given,$s),$$(value $s))))

# make hands its command line on to every child, expanded: LANG=sw would be a broken locale there, and
# SOURCE='$(shell ...)' would run. So the settings are not exported, and any other variable goes as it stands.
$(foreach v,$(.VARIABLES),$(if $(call is_given,$v),\
    $(if $(filter $v,$(SETTINGS)),$(eval unexport $v),$(eval override export $v := $$(value $v)))))
MAKEOVERRIDES :=
unexport MAKEFLAGS LANG LANGUAGE
# Tests start hundreds of processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
export LC_ALL := C.UTF-8

VENV := .venv
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := 0.13.9
TORCH := torch==2.13.0
USER_EXTRAS := train mining report eval slurm hub office
XLING := $(BIN)/xling

# $(call opt,SIZE,size) is the word "size=..." where SIZE is given and nothing where it is not.
opt = $${XLING_ARG_$1:+"$2=$$XLING_ARG_$1"}
recipe := $${XLING_ARG_RECIPE:+"$${XLING_ARG_RECIPE%.yaml}.yaml"}
common := $(call opt,OUT,out) $(call opt,CLUSTER,cluster) $$XLING_ARG_ARGS
# $(call needs,NAME,pattern,example) ends the recipe with one line unless NAME matches the pattern. Which languages there
# are the command knows.
needs = pattern='^$2$$'; [[ $$XLING_ARG_$1 =~ $$pattern ]] || { printf 'make: $1=%q on the command line is no %s; fix: $1=$3\n' \
    "$$XLING_ARG_$1" '$(if $(filter PAIR,$1),pair of language codes,language code)' >&2; exit 2; }
CODE := [[:alpha:]]{2}[[:alpha:]'\''’]*([-_@ ][[:alnum:]()'\''’]+)*

# The settings that a target takes: others would change nothing.
ALWAYS := PYTHON TORCH TORCH_INDEX WHEELS
COMMON := OUT CLUSTER ARGS
TAKES_wheelhouse := OUT
TAKES_lock := ARGS
TAKES_audit := DB ARGS
TAKES_test := ARGS
TAKES_test-fast := ARGS
TAKES_mutants := N PATHS ARGS
TAKES_bench := DATA ARGS
TAKES_quickstart := $(COMMON)
TAKES_hour := DATA $(COMMON)
TAKES_language := LANG DATA SIZE $(COMMON)
TAKES_corpus := LANG RECIPE SOURCE SIZE $(COMMON)
TAKES_parallel := PAIR RECIPE SOURCE SIZE $(COMMON)
TAKES_codeswitch := $(TAKES_parallel)
TAKES_vocab := RECIPE SIZE $(COMMON)
TAKES_binarize := RECIPE $(COMMON)
TAKES_pretrain := RECIPE $(COMMON)
TAKES_finetune := TASK RECIPE CKPT $(COMMON)
TAKES_eval := SUITE RECIPE CKPT $(COMMON)
TAKES_report := RUNS $(COMMON)
goals := $(or $(MAKECMDGOALS),help)
taken := $(foreach goal,$(goals),$(TAKES_$(goal)))
useless := $(filter-out $(ALWAYS) $(taken),$(strip $(foreach s,$(SETTINGS),$(if $(call is_given,$s),$s))))
$(if $(useless),$(error make $(goals) takes no $(useless); it takes: $(or $(strip $(taken)),none)))

# A process per core; tests/conftest.py says which tests stay together.
WORKERS := --numprocesses auto --dist loadgroup

# Notebooks start a kernel of .venv, whatever kernels the machine knows.
export JUPYTER_PREFER_ENV_PATH := 1

.PHONY: help install install-dev wheelhouse lock check docs docs-test test test-fast mutants bench quickstart hour language corpus parallel codeswitch vocab binarize \
    pretrain finetune eval report audit sbom clean given-lang given-pair

help:  ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*  ## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do
	    printf '  make %-12s %s\n' "$$name" "$$text"
	done
	printf '\nSettings, on the command line: %s\n' '$(SETTINGS)'

# $(call step,TEXT) ends the line of the step before with its time and what it added, and begins a line. TEXT is empty at the end.
define step
now=$$(du -sm $(VENV) 2>/dev/null | cut -f1); now=$${now:-0}
if [[ -n $${begun:-} ]]; then echo "install:   $$((SECONDS - begun)) s, $$((now - size)) MB"; fi
begun=$$SECONDS; size=$$now
if [[ -n $(or $1,'') ]]; then echo "install: "$1; fi
endef

install: $(STAMP)  ## make .venv with what README's commands need (PYTHON=python3.12 TORCH=... TORCH_INDEX=... WHEELS=FOLDER)
install-dev: $(DEV_STAMP)  ## add what tests, linters and the documentation need

# Left out unless PYTHON, TORCH, TORCH_INDEX or WHEELS is given: then the stamps are always out of date.
.PHONY: setting-given
$(STAMP): LOCK := requirements.lock
$(DEV_STAMP): LOCK := requirements-dev.lock
# Tests take a warning while a module is compiled for an error.
$(DEV_STAMP): export UV_COMPILE_BYTECODE := 1
$(DEV_STAMP): requirements-dev.lock
$(STAMP) $(DEV_STAMP): pyproject.toml requirements.lock $(if $(strip $(foreach s,PYTHON TORCH TORCH_INDEX WHEELS,$(call is_given,$s))),setting-given)
	@rm -f $@
	started=$$SECONDS
	if [[ -n $$XLING_ARG_WHEELS ]]; then
	    if [[ ! -e $$XLING_ARG_WHEELS/requirements.lock ]]; then
	        printf 'make install: WHEELS=%s was not made by make wheelhouse; fix: run make wheelhouse OUT=%s on a machine with a network\n' \
	            "$$XLING_ARG_WHEELS" "$$XLING_ARG_WHEELS" >&2
	        exit 2
	    fi
	    cmp --silent requirements.lock "$$XLING_ARG_WHEELS/requirements.lock" || {
	        printf 'make install: WHEELS=%s was made for another requirements.lock; fix: run make wheelhouse again\n' \
	            "$$XLING_ARG_WHEELS" >&2
	        exit 2
	    }
	    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$$(realpath "$$XLING_ARG_WHEELS")" UV_NO_INDEX=1
	fi
	version='import sys; print(*sys.version_info[:2], sep="."); sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'
	candidates=(python3.11 python3.12 python3)
	if [[ -n $$XLING_ARG_PYTHON ]]; then candidates=("$$XLING_ARG_PYTHON"); fi
	for python in "$${candidates[@]}" ''; do
	    if wanted=$$("$$python" -c "$$version" 2>/dev/null); then break; fi
	done
	if [[ -z $$python ]]; then
	    printf 'make install: %s is no Python 3.11 or 3.12; fix: make install PYTHON=/path/to/python3.11\n' \
	        "$$(IFS='|'; echo "$${candidates[*]}")" >&2
	    exit 2
	fi
	found=$$($(BIN)/python -c "$$version" 2>/dev/null) || found=
	if [[ $$found != "$$wanted" ]] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then
	    echo "install: $(VENV) with Python $$wanted"
	    "$$python" -m venv --clear $(VENV)
	fi
	$(PIP) uv==$(UV) || echo 'install: without uv; pip takes about three minutes more'
	# uv reads none of pip's settings.
	for name in FIND_LINKS INDEX_URL EXTRA_INDEX_URL; do
	    pip=PIP_$$name uv=UV_$$name
	    if [[ -n $${!pip:-} && -z $${!uv:-} ]]; then export "$$uv=$${!pip}"; fi
	done
	export UV_FIND_LINKS="$${UV_FIND_LINKS// /,}"
	get() {
	    if [[ -x $(BIN)/uv ]]; then
	        $(BIN)/uv pip install --quiet --python $(BIN)/python "$$@" && return
	        echo 'install: uv failed; now with pip'
	    fi
	    $(PIP) --no-compile "$$@"
	}
	# fairseq is built beside torch, and which build of torch fits depends on the machine: it comes first, and the lock leaves it out.
	torch=$${XLING_ARG_TORCH:-$(TORCH)}
	$(call step,"$$torch")
	sed -n 's/^\([^ ]*==[^ ]*\).*/\1/p' $(LOCK) >$(VENV)/versions.txt
	(
	    if [[ -n $$XLING_ARG_TORCH_INDEX ]]; then export PIP_INDEX_URL="$$XLING_ARG_TORCH_INDEX" UV_INDEX="$$XLING_ARG_TORCH_INDEX"; fi
	    get --constraint $(VENV)/versions.txt $${XLING_ARG_TORCH_INDEX:+--upgrade} "$$torch"
	)
	$(call step,fairseq)
	# With READTHEDOCS its setup.py builds no C++: it needs no compiler, and nothing here calls these parts.
	sed -n '/^fairseq-fixed==/,/[^\\]$$/p' $(LOCK) >$(VENV)/fairseq.lock
	get --constraint $(VENV)/versions.txt setuptools wheel
	READTHEDOCS=1 get --require-hashes --no-deps --no-build-isolation --requirement $(VENV)/fairseq.lock
	# Else its first import would print a page of warnings about its strings.
	$(BIN)/python -W ignore -m compileall -q "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fairseq" || true
	$(call step,'the rest of $(LOCK)')
	# Files whose hashes are not those of the lock are refused; it names everything, so nothing is resolved.
	get --require-hashes --no-deps --requirement $(LOCK)
	$(call step,xling)
	# What an earlier build of a wheel left here would hide the entry points of this version.
	rm -rf xling.egg-info
	get --no-deps --no-build-isolation --editable .
	$(call step,)
	touch $(STAMP) $@
	echo "install: done in $$((SECONDS - started)) s, $$now MB in $(VENV)"

WHEELHOUSE := wheelhouse
wheelhouse: install  ## download all that make install needs into a folder, for a machine without a network (OUT=wheelhouse)
	@folder=$${XLING_ARG_OUT:-$(WHEELHOUSE)}
	mkdir -p "$$folder"
	download=($(BIN)/python -m pip download --quiet --disable-pip-version-check --dest "$$folder")
	torch=$${XLING_ARG_TORCH:-$(TORCH)}
	echo "wheelhouse: uv, $$torch"
	$${XLING_ARG_TORCH_INDEX:+env "PIP_INDEX_URL=$$XLING_ARG_TORCH_INDEX"} "$${download[@]}" --constraint $(VENV)/versions.txt "$$torch"
	"$${download[@]}" --no-deps uv==$(UV)
	echo 'wheelhouse: the packages of requirements.lock'
	READTHEDOCS=1 "$${download[@]}" --require-hashes --no-deps --no-build-isolation --requirement requirements.lock
	cp requirements.lock "$$folder"
	echo "wheelhouse: $$(find "$$folder" -type f | wc -l) files, $$(du -sm "$$folder" | cut -f1) MB. There: make install WHEELS=$$folder"

# Torch stays out, for its build depends on the machine; so does torchaudio, which fairseq asks for and nothing here uses.
# What torch needs and what builds sdists is named.
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
    --custom-compile-command 'make lock' --no-emit-package torch --no-emit-package torchaudio pyproject.toml -
lock: install-dev  ## resolve pyproject.toml anew into requirements.lock and requirements-dev.lock (ARGS=--upgrade)
	@resolve() {
	    printf '%s\n' filelock fsspec jinja2 networkx sympy 'setuptools<82' setuptools-scm wheel |
	        $(COMPILE) --override <(printf "%s ; sys_platform == 'never'\n" torch torchaudio) "$$@" $$XLING_ARG_ARGS
	}
	resolve --python-version 3.11.5 --extra all --extra dev --extra docs --output-file requirements-dev.lock
	resolve --python-version 3.11 $(patsubst %,--extra %,$(USER_EXTRAS)) --constraint requirements-dev.lock --output-file requirements.lock

AUDIT := build/audit
audit:  ## look for known vulnerabilities in what requirements.lock names; asks a public database, or a saved one (DB=all.zip)
	@if [[ -n $$XLING_ARG_DB ]]; then exec python3 .ci/packages.py audit "$$XLING_ARG_DB"; fi
	[[ -x $(AUDIT)/bin/pip-audit ]] || { python3 -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet \
	    --disable-pip-version-check pip-audit==2.9.0; }
	$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock $$XLING_ARG_ARGS

sbom:  ## write build/sbom.json: the packages of requirements.lock with their hashes, as CycloneDX
	@mkdir -p build && python3 .ci/packages.py sbom >build/sbom.json

check: install-dev  ## lint, formatting, types, the direction of imports, plain words, spelling, sizes of files and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/prose.py
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/architecture/test_sizes.py
	$(BIN)/hadolint containers/Dockerfile

test: install-dev  ## run every test; XLING_DATA=FOLDER adds those on real data
	$(BIN)/python -m pytest $(WORKERS) $$XLING_ARG_ARGS

test-fast: install-dev  ## run the tests that take less than 0.15 s each
	$(BIN)/python -m pytest -m 'not slow and not seconds and not slurm and not data and not browser' $(WORKERS) $$XLING_ARG_ARGS

mutants: install-dev  ## plant N faults in PATHS and count those that tests find (N=50 PATHS='xling/text eval/scores/statistics.py' ARGS=)
	@$(BIN)/python .ci/mutants.py --count "$${XLING_ARG_N:-50}" $${XLING_ARG_PATHS:-xling corpora eval} $$XLING_ARG_ARGS

docs: install-dev  ## build the documentation site into build/site; a warning or a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-test: install-dev  ## run the commands of the guides, and the notebooks, at a scale of seconds
	$(BIN)/python .ci/guides.py &
	guides=$$!
	folder=$$(mktemp --directory)
	for name in $$(ls docs/notebooks); do
	    mkdir "$$folder/$${name%.ipynb}"
	    cp "docs/notebooks/$$name" "$$folder/$${name%.ipynb}"
	    PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 XLING_CACHE="$$folder/$${name%.ipynb}/cache" \
	        $(BIN)/jupyter-execute --timeout=600 "$$folder/$${name%.ipynb}/$$name"
	done
	rm -r "$$folder"
	wait "$$guides"

bench: install-dev  ## speed beside named peers, as ratios in one run; one that fell by over 10 % is an error (DATA=FOLDER ARGS='turns=2 keep=yes')
	@XLING_DATA="$${XLING_ARG_DATA:-$${XLING_DATA:-}}" $(BIN)/python -m benchmarks.speed $$XLING_ARG_ARGS

quickstart: install  ## from nothing to a zero-shot table on synthetic data (OUT=)
	@$(XLING) quickstart $(common)

hour: install  ## an encoder of all languages at hand and its table, in an hour (DATA=FOLDER OUT= ARGS='minutes=10')
	@$(XLING) run hour $(call opt,DATA,data) $(common)

language: given-lang install  ## models, tables and a report for a language (LANG=sw DATA=FOLDER SIZE= OUT= ARGS='hours=2')
	@$(XLING) language "lang=$$XLING_ARG_LANG" $(call opt,DATA,data) $(call opt,SIZE,size) $(common)

given-lang:
	@$(call needs,LANG,$(CODE)(, ?$(CODE))*,sw)

given-pair:
	@$(call needs,PAIR,$(CODE) ?[-_] ?$(CODE),en-sw)

corpus: given-lang install  ## clean text of one language or many (LANG=sw LANG=sw,eu LANG=all SOURCE= SIZE= OUT=)
	@$(XLING) corpus mono $(recipe) "lang=$$XLING_ARG_LANG" $(call opt,SOURCE,source) $(call opt,SIZE,size) $(common)

parallel: given-pair install  ## clean sentence pairs (PAIR=en-sw SOURCE= SIZE= OUT=)
	@$(XLING) corpus parallel $(recipe) "pair=$$XLING_ARG_PAIR" $(call opt,SOURCE,source) $(call opt,SIZE,size) $(common)

codeswitch: given-pair install  ## code-switched text from pairs (PAIR=en-sw SOURCE= OUT=)
	@$(XLING) corpus codeswitch $(recipe) "pair=$$XLING_ARG_PAIR" $(call opt,SOURCE,source) $(call opt,SIZE,size) $(common)

vocab: install  ## train the vocabulary (RECIPE= SIZE= OUT=)
	@$(XLING) vocab $(recipe) $(call opt,SIZE,size) $(common)

binarize: install  ## encode text into memory-mapped shards (RECIPE= OUT=)
	@$(XLING) binarize $(recipe) $(common)

pretrain: install  ## pre-train a model (RECIPE= OUT= CLUSTER=)
	@$(XLING) pretrain $(recipe) $(common)

finetune: install  ## fine-tune a checkpoint on a task (TASK= CKPT= RECIPE= OUT= CLUSTER=)
	@$(XLING) finetune $${XLING_ARG_TASK:+"$$XLING_ARG_TASK"} $(recipe) $(call opt,CKPT,checkpoint) $(common)

eval: install  ## score a checkpoint in every language (SUITE= CKPT= RECIPE= OUT= CLUSTER=)
	@$(XLING) eval $${XLING_ARG_SUITE:+"$$XLING_ARG_SUITE"} $(recipe) $(call opt,CKPT,checkpoint) $(common)

report: install  ## tables and a page from scores (RUNS='runs/a runs/b' OUT=)
	@$(XLING) report $$XLING_ARG_RUNS $(common)

clean:  ## remove caches and .venv; leaves corpora, checkpoints and results alone
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
