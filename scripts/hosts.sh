#!/usr/bin/env bash
# Several "hosts" on one machine: two network namespaces joined by a cable, two ranks in each.
#
# Checks that the ranks find each other across the cable, also where rank 0's host has a loopback address for its own name;
# that everything they exchange arrives; and that cutting the cable ends all four ranks with an error that names who was
# lost, within the deadline. Slow and lossy cables are in scripts/links.sh. Needs root or user namespaces; where
# there are neither it says so and ends with 0.
#
# Usage: scripts/hosts.sh [MSCCLPP]     the program; the debug build by default
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/namespaces.sh

readonly PORT=29517
find_program "$@"
enter "$program"
create_hosts
connect_hosts
export MSCCLPP_HEARTBEAT_TIMEOUT=5 MSCCLPP_TIMEOUT=60

for address in node-a:$PORT cable:10.77.0.1:$PORT; do
    start "$program" doctor --group
    finish "the ranks did not come together at $address"
    grep -q "4 ranks on 2 nodes" "$work/a" || fail "there should be 4 ranks on 2 nodes"
    sed 's/^\[0\] //' "$work/a"
done

# Every call is compared with the right result; `bench` ends with 1 if an element is wrong.
calls() {
    local collective
    for collective in all_reduce all_gather reduce_scatter all_to_all all_to_all_v broadcast; do
        start "$program" bench $collective -b 1K -e 256K -f 16 -n 3 -w 1 -c 1
        finish "$collective failed"
        sed 's/^\[0\] //' "$work/a"
    done
}
MSCCLPP_TRANSPORT=tcp calls

cut_cable "$program" doctor --group --for 120
cut_cable "$program" bench all_reduce -b 64K -e 64K -n 1000000 -c 0

# The same with UCX, over its sockets.
if library=$(MSCCLPP_UCX_INSTALL=0 scripts/ucx-env.sh); then
    export MSCCLPP_UCX=$library MSCCLPP_TRANSPORT=ucx UCX_TLS=tcp MSCCLPP_LOG_LEVEL=info
    calls
    grep -q "uses UCX .*: tcp/cable" "$work/b" || fail "the ranks do not use UCX over the cable"
    cut_cable "$program" bench all_reduce -b 64K -e 64K -n 1000000 -c 0
fi
