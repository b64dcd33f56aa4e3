"""Rounds, parties and plans, measured."""
