"""How likely is what can happen to a client, as mathematics: tails, dropouts, colluders, edges and circles.

Families of graphs build their bounds from it, and the planner asks them. docs/planning.md derives every line.
"""
