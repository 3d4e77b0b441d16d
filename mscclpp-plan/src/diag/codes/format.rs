//! Codes of the area `format`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    NotJson = "M0301" "not-json": "a plan file is one JSON object in UTF-8",
        "The text is not valid JSON: it is truncated, has text after its end, has a number larger than 1.8e308, or violates the grammar of JSON at the given line and column. The text after that position was not read.\n\nWrong: `{\"name\": \"ring\",}`. Right: `{\"name\": \"ring\"}`.";
    MissingKey = "M0302" "missing-key": "a plan file has all required keys",
        "A plan needs `name`, `collective`, `protocol`, `inplace` and `gpus`; a rank `id`, its three chunk counts, `threadblocks`, `channels` and `remote_buffers`; a thread block `id`, `ops` and `channels`; an operation the keys that `docs/plan-format.md` lists for it. There are no defaults, since a default would be a guess at what the author meant.\n\nWrong: `{\"type\": \"i\", \"index\": 0}`. Right: `{\"type\": \"i\", \"index\": 0, \"size\": 1}`.";
    WrongType = "M0303" "wrong-type": "every value of a plan file has the type and range of its key",
        "Counts, indices and ranks are unsigned 32-bit integers, and sizes in bytes are unsigned 64-bit integers. Values are never rounded, truncated or converted from a string.\n\nWrong: `\"index\": 1.5`, `\"index\": \"1\"`, `\"index\": -1`. Right: `\"index\": 1`.";
    UnknownName = "M0304" "unknown-name": "operations, collectives, reductions, protocols, buffers and channels have names that the format defines",
        "The help lists the names. Plans of older versions of MSCCL++ have operations that no longer exist (`rrc`, `rs`, `tpkt` and others): compile them again with a current version.\n\nWrong: `\"type\": \"input\"`. Right: `\"type\": \"i\"`.";
    UnknownKey = "M0305" "unknown-key": "a plan file has only keys of the format",
        "A key that is unknown, or has no meaning in its object, is ignored with a warning, since a newer version may have added it. In strict mode it is an error, since it may be misspelled.\n\nWrong: `\"tgb_info\": …`. Right: `\"tbg_info\": …`.";
    DuplicateKey = "M0306" "duplicate-key": "the keys of an object are distinct",
        "JSON readers differ in which of the two values they use, so such a plan would be ambiguous.\n\nWrong: `{\"index\": 0, \"index\": 1, \"size\": 1}`. Right: `{\"index\": 1, \"size\": 1}`.";
    InconsistentValue = "M0307" "inconsistent-value": "redundant values in a plan file are consistent",
        "The `id` of a rank or thread block is its position, a local operand names no other rank, the number of ranks of a group is its `size`, and a `glre` names the buffer of its switch channel.\n\nWrong: `\"gpus\": [{\"id\": 1, …}, {\"id\": 0, …}]`. Right: sort the ranks by `id`.";
    BadReference = "M0308" "bad-reference": "an operand specifies its buffer with exactly one key",
        "`type` for a buffer of the rank itself, `buffer_id` for a buffer of another rank, `switch_channel_id` for the buffer of a switch channel.\n\nWrong: `{\"index\": 0, \"size\": 1}`. Right: `{\"type\": \"o\", \"index\": 0, \"size\": 1}`.";
    NestedLoop = "M0309" "nested-loop": "pipelines do not nest",
        "The operations of a `pipeline` are repeated for every window of the message; windows are not divided further.\n\nWrong: a `pipeline` among the `ops` of a `pipeline`. Right: one after the other.";
    BadImage = "M0310" "bad-image": "a plan image is an unmodified file of this version of mscclpp",
        "The length, the hash and every offset of an image are checked. A plan image of another version, or one that was truncated or modified, must be compiled again.\n\nWrong: a file of 4096 bytes whose header states 5120. Right: the complete file, or the plan compiled again with this version.";
    NotInReference = "M0312" "not-in-reference": "a plan for the reference executor uses only what it implements",
        "The executor of MSCCL++ always adds, regardless of the operation in the plan; rejects a `glre` that was not fused with a broadcast into `glres`; divides by the number of input and output chunks; swaps the chunks of a `get`; and repeats packet operations in full for every window of a pipeline. A plan that would produce wrong results there is not exported.\n\nWrong: exporting a plan that computes the maximum. Right: run it with this runtime.";
    NotPlanText = "M0313" "not-plan-text": "a plan file as text follows the grammar of plan text",
        "A plan file that begins with a letter or a comment is read as text. The first line and column that the grammar in the documentation of `plan::text` does not allow are named, with what may stand there; nothing after them was read.\n\nWrong: `put memory output[0] input[0]`. Right: `put memory rank 1 output[0] <- input[0]`.";
}
