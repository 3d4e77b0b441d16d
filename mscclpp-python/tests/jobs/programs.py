"""Random programs on the backend. PROGRAM_SEED: the first seed, that of the day unless set; NUM_PROGRAMS: their number."""

import os
import time

import program
import torch
from harness import run, test


@test
def random_programs_have_the_results_of_each_rank():
    seed = int(os.environ.get("PROGRAM_SEED", time.time() // 86_400))
    program.run(torch.device("cpu"), seed, int(os.environ.get("NUM_PROGRAMS", 3)), 80)


if __name__ == "__main__":
    run()
