"""Beside Flower's own secure aggregation, and in its federations."""
