"""MSCCLPPLang: programs are functions of chunks. All of its names are here, as programs import them; `msccl.language.mscclpp` has the functions."""

from msccl.language.buffers import Buffer
from msccl.language.collectives import *
from msccl.language.mscclpp import Check, ChunkRef, Json, MSCCLPPProgram, RankRef, chunk, rank
from msccl.language.types import ChannelType, DataFormat, ReplicationPolicy
