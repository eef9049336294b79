#!/usr/bin/env bash
# Measures on a machine with a GPU that has Python 3.12, torch for CUDA and no network.
#
#   bash benchmarks/gpu/run.sh pack FOLDER       where there is a network: the wheels that such a machine lacks
#   bash benchmarks/gpu/run.sh STAGE [WORD...]   one stage, at most ten minutes: parity train transfer
#
# WHEELS names the folder of `pack`, OUT that of the results (JSON and Markdown of each stage), PYTHON the interpreter.
# DEVICE=cpu and the word scale=tiny rehearse everything without a GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
export OUT=${OUT:-$root/runs/gpu} PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore TOKENIZERS_PARALLELISM=false
mkdir -p "$OUT"

if [[ ${1:-} == pack ]]; then
    folder=${2:?pack FOLDER}
    mkdir -p "$folder"
    "$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" \
        antlr4-python3-runtime==4.9.3 beartype bitarray dill fairseq-fixed==0.12.3.1 hydra-core==1.3.2 isal ufal-kenlm==26.4.1 \
        omegaconf==2.3.0 pytest-timeout zstandard \
        nltk opencc polars polars-runtime-32 rouge-score seqeval # for transfer
    du -sh "$folder"
    exit
fi

if [[ -n ${WHEELS:-} ]]; then
    site=${SITE:-$OUT/site}
    if [[ ! -e $site/.done ]]; then
        "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" \
            "$WHEELS"/*.whl
        touch "$site/.done"
    fi
    export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
cd "$root"
exec "$python" -m benchmarks.gpu "$@"
