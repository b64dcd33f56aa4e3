"""Faces in the published sum, with noise and without."""
