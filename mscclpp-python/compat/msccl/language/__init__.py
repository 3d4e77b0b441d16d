"""MSCCLPPLang: programs are functions of chunks. `msccl.language.mscclpp` has its functions."""
