"""Keystreams, keys, signatures, field arithmetic and draws of noise, measured."""
