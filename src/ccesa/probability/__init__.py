"""How likely it is that something bad happens to a client: bounds for each family of graphs.

Families of graphs build their bounds from it, and the planner asks them. docs/planning.md derives every line.
"""
