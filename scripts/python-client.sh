#!/usr/bin/env bash
# Prints the folder of a Python client of NCCL, to be added to PYTHONPATH, for tests on simulated devices. The first call
# downloads the client from PyPI without its dependencies. It runs in the environment of `scripts/python-env.sh 2.15.0`,
# which is created where it is missing.
#
# Usage: scripts/python-client.sh NAME
#   sglang    the NCCL wrapper of SGLang, two files of its wheel (39 MB to download)
#   vllm      that of vLLM, two files of its wheel (340 MB to download)
#   nccl4py   NVIDIA's bindings, with cuda-core and packaging, which they need (10 MB to download)
#
# The folder is MSCCLPP_PYTHON_ENVS/NAME-VERSION, by default below ~/.cache/mscclpp/python. Versions and hashes are fixed. With
# MSCCLPP_PYTHON_INSTALL=0 nothing is installed, and the exit status is 3 where the folder or the environment is missing.
set -euo pipefail

usage() {
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

[ $# -eq 1 ] || usage
wrapper=distributed/device_communicators
files=() # of the wheel; all for none
case "$1" in
sglang)
    requirements="sglang==0.5.23 --hash=sha256:00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"
    files=("sglang/srt/$wrapper/pynccl.py" "sglang/srt/$wrapper/pynccl_wrapper.py")
    ;;
vllm)
    requirements="vllm==0.33.0 --hash=sha256:4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa"
    files=("vllm/$wrapper/pynccl.py" "vllm/$wrapper/pynccl_wrapper.py")
    ;;
nccl4py)
    requirements="nccl4py==0.6.0 --hash=sha256:7b75f4943edc39522bec1d3c7c59804fa2fd87a879e5744660d723440cb62755
cuda-core==1.2.2 --hash=sha256:55a0ea9e590e54e696f04f20b037f52dbac3af09bce0039602324cd4151daab9
packaging==26.0 --hash=sha256:b36f1fef9334a5588b4166f8bcd26a14e521f2b55e6b9de3aaa80d3ff7a37529"
    ;;
*) usage ;;
esac

python=$("$(dirname "$0")/python-env.sh" 2.15.0)
version=${requirements#*==}
environments=${MSCCLPP_PYTHON_ENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/mscclpp/python}
folder=$environments/$1-${version%% *}
# Written last, with what was installed.
installed=$folder/requirements.txt

if [ "$(cat "$installed" 2>/dev/null)" != "$requirements" ]; then
    if [ "${MSCCLPP_PYTHON_INSTALL:-1}" = 0 ]; then
        echo "there is no $folder; run scripts/python-client.sh $1" >&2
        exit 3
    fi
    exec 9>"$folder.lock"
    flock 9
    # Another call may have installed it in the meantime.
    if [ "$(cat "$installed" 2>/dev/null)" != "$requirements" ]; then
        rm -rf "$folder"
        # Where an interrupted call leaves it, the next one removes it.
        wheels=$folder/wheels
        mkdir -p "$wheels"
        echo "$requirements" >"$wheels/requirements.txt"
        "$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: --require-hashes \
            --dest "$wheels" --requirement "$wheels/requirements.txt" >&2
        for wheel in "$wheels"/*.whl; do
            "$python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2], sys.argv[3:] or None)' \
                "$wheel" "$folder" "${files[@]}"
        done
        rm -rf "$wheels"
        echo "$requirements" >"$installed"
    fi
fi
echo "$folder"
