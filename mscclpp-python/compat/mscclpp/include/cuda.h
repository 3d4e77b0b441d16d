// The part of CUDA's runtime that host code of native algorithms uses.
#pragma once
#include "cuda_runtime.h"
