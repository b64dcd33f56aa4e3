"""How likely it is that something bad happens to a client: bounds for each family of graphs.

``assumptions`` and ``demand`` are what is said, ``events`` what must not happen; ``bounds`` is what the
planner asks a family, and ``harary`` and ``erdos_renyi`` answer with ``tails``. docs/planning.md derives it.
"""
