#!/usr/bin/env bash
# Prints the path of a Python that has the given version of PyTorch, for tests on simulated devices. The first call creates the
# environment from PyPI: about 3 GB to download, 5 GB on disk.
#
# Usage: scripts/python-env.sh VERSION
#
# The environment is MSCCLPP_PYTHON_ENVS/torch-VERSION, by default below ~/.cache/mscclpp/python. Several calls may run at once:
# one installs, the others wait for it. An installation that failed or was interrupted is started again by the next call.
# With MSCCLPP_PYTHON_INSTALL=0 nothing is installed, and the exit status is 3 where the environment is missing.
set -euo pipefail

if [ $# -ne 1 ] || ! [[ "$1" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
    sed -n '2,/^set/{/^# /s/^# //p}' "$0" >&2
    exit 2
fi
requirements="torch==$1 numpy==2.3.5"
environments=${MSCCLPP_PYTHON_ENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/mscclpp/python}
environment=$environments/torch-$1
# Written last, with what was installed.
installed=$environment/requirements.txt

if [ "$(cat "$installed" 2>/dev/null)" != "$requirements" ]; then
    if [ "${MSCCLPP_PYTHON_INSTALL:-1}" = 0 ]; then
        echo "there is no $environment with $requirements; run scripts/python-env.sh $1" >&2
        exit 3
    fi
    mkdir -p "$environments"
    exec 9>"$environments/torch-$1.lock"
    flock 9
    # Another call may have installed it in the meantime.
    if [ "$(cat "$installed" 2>/dev/null)" != "$requirements" ]; then
        rm -rf "$environment"
        python3 -m venv "$environment" >&2
        # shellcheck disable=SC2086 # two requirements
        "$environment/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir $requirements >&2
        echo "$requirements" >"$installed"
    fi
fi
echo "$environment/bin/python"
