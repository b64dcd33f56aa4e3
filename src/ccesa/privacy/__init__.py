"""Differential privacy: noise that clients add before they mask, and what it promises about the sum."""
