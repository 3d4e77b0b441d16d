"""Random programs, those of mscclpp-python/tests/jobs/program.py, on devices. PROGRAM_SEED: the first seed, that of the day unless
set; NUM_PROGRAMS: their number.
"""

import os
import sys
import time

from harness import DEVICE, run, test

sys.path.append(os.path.join(os.path.dirname(__file__), "../../../mscclpp-python/tests/jobs"))

import program


@test
def random_programs_have_the_results_of_each_rank():
    seed = int(os.environ.get("PROGRAM_SEED", time.time() // 86_400))
    program.run(DEVICE, seed, int(os.environ.get("NUM_PROGRAMS", 3)), 60)


if __name__ == "__main__":
    run()
