"""Handwritten digits, learnt by many nodes through secure aggregation."""
