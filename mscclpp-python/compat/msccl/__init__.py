"""The names of MSCCLPPLang, the first generation of the language (`msccl.language.mscclpp`), on the recorder of `mscclpp_rs`."""
