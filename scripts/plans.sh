# The built-in algorithms that run between nodes, for the scripts that source this file.
# shellcheck shell=bash

# Prints a line per algorithm: its name, its collective as `mscclpp bench` calls it, and the option of `bench` that it needs, if any.
plans_between_nodes() {
    "$program" plan list | awk '
        BEGIN { split("allreduce all_reduce allgather all_gather reducescatter reduce_scatter alltoall all_to_all sendrecv send_recv", pairs)
                for (i = 1; i in pairs; i += 2) named[pairs[i]] = pairs[i + 1] }
        NR > 1 && $1 ~ /^[a-z_]+$/ && !/ 1 node($| )/ { print $1, ($2 in named ? named[$2] : $2), (/ only / ? "--in-place" : "") }'
}
