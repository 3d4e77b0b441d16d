# Prints the largest number of loads in flight: those that match `load` and are issued before an instruction uses the result of one of
# them, without a branch in between. Reads the machine code of `cuobjdump -sass`, of the kernels whose names match `kernel`.
/Function :/ { ours = $0 ~ kernel; forget() }
function forget() { split("", loaded); flying = 0 }
ours && /^ *\/\*[0-9a-f]+\*\/ / {
    text = $0
    sub(/^ *\/\*[0-9a-f]+\*\/ */, "", text)
    sub(/;.*/, "", text)
    gsub(/U[RP][0-9]+/, "", text) # uniform registers
    is_load = text ~ load
    rest = text
    if (is_load) { # the register of its result
        match(rest, /R[0-9]+/)
        result = substr(rest, RSTART + 1, RLENGTH - 1) + 0
        rest = substr(rest, RSTART + RLENGTH)
    }
    while (match(rest, /R[0-9]+/)) {
        register = substr(rest, RSTART + 1, RLENGTH - 1) + 0
        rest = substr(rest, RSTART + RLENGTH)
        if (register in loaded || rest ~ /^\.64/ && register + 1 in loaded) {
            forget()
            break
        }
    }
    if (text ~ /(BRA|CALL|RET|EXIT)/) forget()
    if (is_load) {
        for (word = 0; word < 4; ++word) loaded[result + word]
        if (++flying > most) most = flying
    }
}
END { print most + 0 }
