#!/usr/bin/env bash
# Prints the folder of a Python client of NCCL or MSCCL++, to be added to PYTHONPATH, for tests on simulated devices. The first call
# downloads the client from PyPI without its dependencies. It runs in the environment of `scripts/python-env.sh 2.15.0`,
# which is created where it is missing.
#
# Usage: scripts/python-client.sh NAME
#   sglang    the wrappers of NCCL, MSCCL++ and FlashInfer's all-reduces of SGLang, four files of its wheel, and msgspec, which one needs
#             (40 MB to download)
#   vllm      those of NCCL and FlashInfer of vLLM, three files of its wheel (340 MB to download)
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
files=() # of the wheel that has them; all of the other wheels
case "$1" in
sglang)
    # The wheels of msgspec are those for Linux and CPython 3.10 to 3.14.
    requirements="sglang==0.5.23 --hash=sha256:00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937
msgspec==0.22.0 \\
--hash=sha256:57c282f474e17acf6bcf84f393c73afd45d6eba47cccff8b76b79c4fbb8a3b54 \\
--hash=sha256:12a887c4c06e4a771a2db32c9a80c7bb21866b12458025f636dcdc2253331c28 \\
--hash=sha256:b962000e11dd34fb210a5a2c57a8a62b2d92b381c8cb3b05c075a83e38f8d645 \\
--hash=sha256:a6db3806b3b76ca78064255eac6fa101a8a64fe6f698d80fbaf81fdfa21217d4 \\
--hash=sha256:b5a169b5b03f0f2c7a296c002647db1dab75d2cd501bca34e32b71cab0261b56 \\
--hash=sha256:99c401861c5bb3a57f7d6423ea7ed4352cd57aa3f04f4fbe9f3e3e4564a10f08 \\
--hash=sha256:627bfdfe5a4b3d916b3360b30f4cddeee3a084f56593e33527c6872fa8322ff9 \\
--hash=sha256:c6c310ef83e7e291b01a63298828f848348bb99e84a1098c4b3923c05674d032 \\
--hash=sha256:f039ef5207b847f075a0a43020ee6140cd47505f890e47e157f2deb485c2dc96 \\
--hash=sha256:5e4f7e09cceac7dbf4c0761b8ae7df51c55b5df5e9af7aff2c895aac1ebea015"
    files=("sglang/srt/$wrapper/pynccl.py" "sglang/srt/$wrapper/pynccl_wrapper.py" "sglang/srt/$wrapper/pymscclpp.py"
        sglang/srt/layers/flashinfer_comm_fusion.py)
    ;;
vllm)
    requirements="vllm==0.33.0 --hash=sha256:4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa"
    files=("vllm/$wrapper/pynccl.py" "vllm/$wrapper/pynccl_wrapper.py" "vllm/$wrapper/flashinfer_all_reduce.py")
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
contents=$(printf '%s\n' "$requirements" "${files[@]}")

if [ "$(cat "$installed" 2>/dev/null)" != "$contents" ]; then
    if [ "${MSCCLPP_PYTHON_INSTALL:-1}" = 0 ]; then
        echo "there is no $folder; run scripts/python-client.sh $1" >&2
        exit 3
    fi
    exec 9>"$folder.lock"
    flock 9
    # Another call may have installed it in the meantime.
    if [ "$(cat "$installed" 2>/dev/null)" != "$contents" ]; then
        rm -rf "$folder"
        # Where an interrupted call leaves it, the next one removes it.
        wheels=$folder/wheels
        mkdir -p "$wheels"
        echo "$requirements" >"$wheels/requirements.txt"
        "$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: --require-hashes \
            --dest "$wheels" --requirement "$wheels/requirements.txt" >&2
        for wheel in "$wheels"/*.whl; do
            "$python" -c '
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
names = set(wheel.namelist())
wheel.extractall(sys.argv[2], [name for name in sys.argv[3:] if name in names] or None)' "$wheel" "$folder" "${files[@]}"
        done
        rm -rf "$wheels"
        echo "$contents" >"$installed"
    fi
fi
echo "$folder"
