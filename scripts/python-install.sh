#!/usr/bin/env bash
# Installs the Python package mscclpp-rs of this checkout by pip, as its users do, into an environment of its own on top of one that has
# PyTorch (`scripts/python-env.sh`), and runs a job of it by torchrun.
#
# Usage: scripts/python-install.sh VERSION      a version of PyTorch, such as 2.15.0
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(MSCCLPP_PYTHON_INSTALL=0 scripts/python-env.sh "${1:?expected a version of PyTorch}")
environment=${CARGO_TARGET_DIR:-$PWD/target}/python-install
rm -rf "$environment"
"$python" -m venv "$environment"
# That of PyTorch is found after it, and is not changed.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} "$environment/bin/pip" install --quiet --disable-pip-version-check ./mscclpp-python
"$environment/bin/python" -m mscclpp_rs doctor
OMP_NUM_THREADS=1 "$environment/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 mscclpp-python/tests/jobs/training.py ddp fsdp2
