#!/usr/bin/env bash
# Prints the folder of mypy, to be added to PYTHONPATH of the Python of `scripts/python-env.sh 2.15.0`, for tests of type stubs. The first
# call installs it from PyPI (20 MB to download); the environment must exist.
#
# Usage: scripts/python-mypy.sh
#
# The folder is MSCCLPP_PYTHON_ENVS/mypy-VERSION, by default below ~/.cache/mscclpp/python. With MSCCLPP_PYTHON_INSTALL=0 nothing is
# installed, and the exit status is 3 where the folder or the environment is missing.
set -euo pipefail

version=2.4.1
python=$(MSCCLPP_PYTHON_INSTALL=0 "$(dirname "$0")/python-env.sh" 2.15.0)
folder=${MSCCLPP_PYTHON_ENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/mscclpp/python}/mypy-$version

if [ ! -d "$folder" ]; then
    if [ "${MSCCLPP_PYTHON_INSTALL:-1}" = 0 ]; then
        echo "there is no $folder; run scripts/python-mypy.sh" >&2
        exit 3
    fi
    exec 9>"$folder.lock"
    flock 9
    # Another call may have installed it in the meantime, and one that failed or was interrupted has left a part.
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.part"
        "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --target "$folder.part" "mypy==$version" >&2
        mv "$folder.part" "$folder"
    fi
fi
echo "$folder"
