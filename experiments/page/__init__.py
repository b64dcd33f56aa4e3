"""Hold docs/reproduction.md to the results: every number on it comes from a results.json, or is no result.

``python -m experiments.page`` says where the page and the results differ; ``--write`` renews its tables and
numbers in place. tests/house/test_reproduction_page.py fails for whatever either would say.

Every section of the page has a module here with one name, ``SECTION`` (running_time.py is a model; a new
module is found by itself). ``found["costs"]`` is experiments/costs/results.json. A section has

- ``tables``: functions of ``found`` that give a whole table as Markdown, made by ``markdown.table``. A table
  is known on the page by its head row, in which numbers may have changed. ``markdown.spread`` is for a cell
  of several seeds;
- ``said``: ``Said("loses {:.0%} of {} rounds", lambda found: [rate, rounds])``, a piece of a sentence with a
  field for each result, and what belongs in the fields. A field is one number or one word, rounded by its
  format (``{:,}``, ``{:.2f}``; ``{:.0%}`` is written "68 %"), or a text from ``markdown``: ``word(12)`` is
  "twelve", ``power(2, -20)`` is "2⁻²⁰", ``scientific(3e-4)`` is "3·10⁻⁴". Line breaks are spaces;
- ``fixed``: pieces of text with numbers that are no results: numbers of theorems and steps, what the paper
  says in words. Short, but with enough words around the number that the text occurs once.

Each of them must occur exactly once in its section, and every digit and every written-out number from two on
must be in one of them, so a digit that changes anywhere is noticed. In a ``Said`` its fields count, and
conditions as in "at n = 100"; any other number in its text needs a field, or a ``fixed`` of its own. Names
such as CIFAR-10 are known everywhere (``held.NAMES``).
"""
