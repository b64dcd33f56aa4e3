"""How many neighbours are enough: so far the paper's own formulas, the baseline of any planning."""
