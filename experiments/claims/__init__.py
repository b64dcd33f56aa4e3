"""Claims of the paper's text, each in a module of its own: the numbers that decide it, and the verdict."""
