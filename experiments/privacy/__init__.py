"""Noisy sums, seen from outside: how well they train, what an audit finds, and what bits cost."""
