"""The paper's tables and figures: one folder each, run by ``python -m experiments.NAME.run``."""
