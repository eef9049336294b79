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
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Files whose hashes are not those of requirements.lock are refused; the lock names everything, so nothing is resolved.
LOCKED := $(PIP) --require-hashes --no-deps
XLING := $(BIN)/xling

# $(call opt,SIZE,size) is the word "size=..." where SIZE is given and nothing where it is not.
opt = $${XLING_ARG_$1:+"$2=$$XLING_ARG_$1"}
recipe := $${XLING_ARG_RECIPE:+"$${XLING_ARG_RECIPE%.yaml}.yaml"}
common := $(call opt,OUT,out) $(call opt,CLUSTER,cluster) $$XLING_ARG_ARGS
# $(call needs,NAME,pattern,example) ends the recipe with one line unless NAME matches the pattern.
needs = [[ $$XLING_ARG_$1 =~ ^$2$$ ]] || { printf 'make: $1=%q on the command line is no %s; fix: $1=$3\n' \
    "$$XLING_ARG_$1" '$(if $(filter PAIR,$1),pair of language codes,language code)' >&2; exit 2; }
CODE := [A-Za-z]{2,3}([-_][A-Za-z]+)*

# A process per core; tests/conftest.py says which tests stay together.
WORKERS := --numprocesses auto --dist loadgroup

# Notebooks start a kernel of .venv, whatever kernels the machine knows.
export JUPYTER_PREFER_ENV_PATH := 1

.PHONY: help install wheelhouse check docs docs-test test test-fast mutants bench quickstart hour corpus parallel codeswitch vocab binarize \
    pretrain finetune eval report constraints audit sbom clean given-lang given-pair

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

install: $(STAMP)  ## make .venv and install everything (PYTHON=python3.12 TORCH=... TORCH_INDEX=... WHEELS=FOLDER)

# Left out unless PYTHON, TORCH, TORCH_INDEX or WHEELS is given: then the stamp is always out of date.
.PHONY: setting-given
$(STAMP): pyproject.toml constraints.txt requirements.lock $(if $(strip $(foreach s,PYTHON TORCH TORCH_INDEX WHEELS,$(call is_given,$s))),setting-given)
	@rm -f $(STAMP)
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
	    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$$(realpath "$$XLING_ARG_WHEELS")"
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
	# fairseq compiles against torch and numpy: they come first, and it is built without a second copy.
	torch=$${XLING_ARG_TORCH:-torch==2.13.0}
	$(call step,"$$torch")
	$${XLING_ARG_TORCH_INDEX:+env "PIP_INDEX_URL=$$XLING_ARG_TORCH_INDEX"} \
	    $(PIP) --constraint constraints.txt $${XLING_ARG_TORCH_INDEX:+--upgrade} "$$torch"
	$(call step,'build tools')
	sed '/^# The rest/,$$d' requirements.lock >$(VENV)/build.lock
	$(LOCKED) --requirement $(VENV)/build.lock
	$(call step,'what xling needs (fairseq is compiled here unless a wheel fits; about three minutes)')
	$(LOCKED) --no-build-isolation --requirement requirements.lock
	$(call step,'xling')
	# What an earlier build of a wheel left here would hide the entry points of this version.
	rm -rf xling.egg-info
	$(PIP) --no-deps --no-build-isolation --editable .
	# fairseq asks for torchaudio and nothing here uses it. One whose compiled parts this torch cannot load stops transformers: without
	# these parts it loads, and pip check finds what fairseq asks for.
	if ! $(BIN)/python -c 'import torchaudio' 2>/dev/null; then
	    find $(VENV) -path '*/torchaudio/lib/*.so' -delete
	    if ! $(BIN)/python -c 'import torchaudio' 2>/dev/null; then
	        $(BIN)/python -m pip --disable-pip-version-check uninstall --quiet --yes torchaudio
	    fi
	fi
	$(call step,)
	touch $(STAMP)
	echo "install: done in $$((SECONDS - started)) s, $$now MB in $(VENV)"

WHEELHOUSE := wheelhouse
wheelhouse: install  ## download all that make install needs into a folder, for a machine without a network (OUT=wheelhouse)
	@folder=$${XLING_ARG_OUT:-$(WHEELHOUSE)}
	mkdir -p "$$folder"
	download=($(BIN)/python -m pip download --quiet --disable-pip-version-check --dest "$$folder")
	torch=$${XLING_ARG_TORCH:-torch==2.13.0}
	echo "wheelhouse: $$torch"
	$${XLING_ARG_TORCH_INDEX:+env "PIP_INDEX_URL=$$XLING_ARG_TORCH_INDEX"} "$${download[@]}" --constraint constraints.txt "$$torch"
	echo 'wheelhouse: the packages of requirements.lock'
	"$${download[@]}" --require-hashes --no-deps --no-build-isolation --requirement requirements.lock
	cp requirements.lock "$$folder"
	echo "wheelhouse: $$(find "$$folder" -type f | wc -l) files, $$(du -sm "$$folder" | cut -f1) MB. There: make install WHEELS=$$folder"

constraints: install  ## resolve pyproject.toml, then write constraints.txt and requirements.lock again
	@$(PIP) --constraint constraints.txt --no-build-isolation --editable '.[dev,docs]'
	{
	    sed -n '/^#/p' constraints.txt
	    $(BIN)/python -m pip freeze --all --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//; /^pip==/d; / @ /d'
	} >constraints.new
	mv constraints.new constraints.txt
	$(BIN)/python .ci/lock.py
	touch $(STAMP)

AUDIT := build/audit
audit:  ## look for known vulnerabilities in what requirements.lock names; asks a public database, or a saved one (DB=all.zip)
	@if [[ -n $$XLING_ARG_DB ]]; then exec python3 .ci/packages.py audit "$$XLING_ARG_DB"; fi
	[[ -x $(AUDIT)/bin/pip-audit ]] || { python3 -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet \
	    --disable-pip-version-check pip-audit==2.9.0; }
	$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock $$XLING_ARG_ARGS

sbom:  ## write build/sbom.json: the packages of requirements.lock with their hashes, as CycloneDX
	@mkdir -p build && python3 .ci/packages.py sbom >build/sbom.json

check: install  ## lint, formatting, types, the direction of imports, plain words, spelling, sizes of files and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/prose.py
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/architecture/test_sizes.py
	$(BIN)/hadolint containers/Dockerfile

test: install  ## run every test; XLING_DATA=FOLDER adds those on real data
	$(BIN)/python -m pytest $(WORKERS) $$XLING_ARG_ARGS

test-fast: install  ## run the tests that take less than 0.15 s each
	$(BIN)/python -m pytest -m 'not slow and not seconds and not slurm and not data and not browser' $(WORKERS) $$XLING_ARG_ARGS

mutants: install  ## plant N faults in PATHS and count those that tests find (N=50 PATHS='xling/text eval/scores/statistics.py' ARGS=)
	@$(BIN)/python .ci/mutants.py --count "$${XLING_ARG_N:-50}" $${XLING_ARG_PATHS:-xling corpora eval} $$XLING_ARG_ARGS

docs: install  ## build the documentation site into build/site; a warning or a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-test: install  ## run the commands of the guides, and the notebooks, at a scale of seconds
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

bench: install  ## run every benchmark in benchmarks/ (long); XLING_DATA=FOLDER for those on real data
	@set +f
	failed=()
	for script in benchmarks/*.py; do
	    [[ -e $$script ]] || { echo 'make bench: benchmarks/ is empty' >&2; exit 1; }
	    name=$$(basename "$$script" .py)
	    echo "== $$name"
	    $(BIN)/python -m "benchmarks.$$name" || failed+=("$$name")
	done
	if (( $${#failed[@]} )); then echo "make bench: not (wholly) run: $${failed[*]}; each says why above" >&2; exit 1; fi

quickstart: install  ## from nothing to a zero-shot table on synthetic data (OUT=)
	@$(XLING) quickstart $(common)

hour: install  ## an encoder of all languages at hand and its table, in an hour (DATA=FOLDER OUT= ARGS='minutes=10')
	@$(XLING) run hour $(call opt,DATA,data) $(common)

given-lang:
	@$(call needs,LANG,$(CODE)(,$(CODE))*,sw)

given-pair:
	@$(call needs,PAIR,$(CODE)-$(CODE),en-sw)

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
