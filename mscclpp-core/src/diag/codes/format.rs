//! Codes of the area `format`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    NotJson = "M0301" "not-json": "a plan file is one JSON object in UTF-8",
        "The text could not be read as JSON: it is cut off, has something behind its end, has a number beyond 1.8e308, or breaks JSON's grammar at the line and column that are named. Nothing behind that place was looked at.\n\nWrong: `{\"name\": \"ring\",}`. Right: `{\"name\": \"ring\"}`.";
    MissingKey = "M0302" "missing-key": "a plan file has every key that says what a plan does",
        "A plan needs `name`, `collective`, `protocol`, `inplace` and `gpus`; a rank `id`, its three chunk counts, `threadblocks`, `channels` and `remote_buffers`; a thread block `id`, `ops` and `channels`; an operation what `docs/plan-format.md` lists for it. A default would be a guess at what its author meant.\n\nWrong: `{\"type\": \"i\", \"index\": 0}`. Right: `{\"type\": \"i\", \"index\": 0, \"size\": 1}`.";
    WrongType = "M0303" "wrong-type": "every value of a plan file has its key's type and range",
        "Counts, indexes and ranks are whole numbers of 32 bits, sizes in bytes are whole numbers of 64 bits. Nothing is rounded, cut short or read from a string.\n\nWrong: `\"index\": 1.5`, `\"index\": \"1\"`, `\"index\": -1`. Right: `\"index\": 1`.";
    UnknownName = "M0304" "unknown-name": "operations, collectives, reductions, protocols, buffers and channels have the names of the format",
        "The help lists the names. Plans of older versions of MSCCL++ have operations that no longer exist (`rrc`, `rs`, `tpkt` and others): build them again with a version that writes the present ones.\n\nWrong: `\"type\": \"input\"`. Right: `\"type\": \"i\"`.";
    UnknownKey = "M0305" "unknown-key": "a plan file has no keys but those of the format",
        "A key that is not known, or that means nothing where it stands, is ignored with a warning, since a newer version may have added it; in a strict reading it is an error, since it may be a misspelt one.\n\nWrong: `\"tgb_info\": …`. Right: `\"tbg_info\": …`.";
    DuplicateKey = "M0306" "duplicate-key": "no key is twice in one object",
        "Readers differ in which of the two they take, so a plan with both means different things to different ranks.\n\nWrong: `{\"index\": 0, \"index\": 1, \"size\": 1}`. Right: `{\"index\": 1, \"size\": 1}`.";
    Contradiction = "M0307" "inconsistent-value": "what a plan file says twice agrees",
        "A rank's and a thread block's `id` is its position, a local reference names no other rank, a group has as many ranks as its `size` says, and a `glre` names the buffer of its switch channel.\n\nWrong: `\"gpus\": [{\"id\": 1, …}, {\"id\": 0, …}]`. Right: sort them.";
    BadReference = "M0308" "bad-reference": "a reference says in exactly one way where its chunks are",
        "`type` for the rank's own buffers, `buffer_id` for another rank's, `switch_channel_id` for a multicast window.\n\nWrong: `{\"index\": 0, \"size\": 1}`. Right: `{\"type\": \"o\", \"index\": 0, \"size\": 1}`.";
    NestedLoop = "M0309" "nested-loop": "a plan has one level of pipelines",
        "The operations of a `pipeline` are repeated over windows of the message; there is no window of a window.\n\nWrong: a `pipeline` among the `ops` of a `pipeline`. Right: one behind the other.";
    BadImage = "M0310" "bad-image": "a plan image is what this version of mscclpp wrote, to the last bit",
        "Images are checked by length, hash and every position in them. A plan image of another version, or one that was cut off or changed on its way, has to be built again.\n\nWrong: a file of 4096 bytes that says it has 5120. Right: the whole file, or the plan built anew with this version.";
    NotInReference = "M0312" "not-in-reference": "a plan for the reference executor uses only what it implements",
        "MSCCL++'s executor always adds, whatever the plan says; refuses a `glre` that was not fused with a broadcast into `glres`; divides by the number of input and output chunks; swaps the chunks of a `get`; and repeats packet operations in full for every window of a pipeline. A plan that would run wrongly there is not exported.\n\nWrong: exporting a plan that takes the maximum. Right: run it with this runtime.";
    NotPlanText = "M0313" "not-plan-text": "a plan file as text follows the grammar of plan text",
        "A plan file that begins with a letter or a comment is read as text. The first line and column that the grammar in `docs/plan-text.md` does not allow are named, with what may stand there; nothing after them was read.\n\nWrong: `put memory output[0] input[0]`. Right: `put memory rank 1 output[0] <- input[0]`.";
}
