"""One folder for each table and figure of the paper; ``python -m experiments`` makes them all."""

import os

# The matrices here are small: more threads only wait for each other. numpy reads this when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
