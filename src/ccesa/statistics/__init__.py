"""Joint statistics over the tables of several sites, of which the server sees only the sums.

``schema`` with its ``columns`` is what everybody has agreed on, ``table`` reads a site's file, ``tally``
counts it and leaves small groups out, ``exact`` and ``noisy`` turn a tally into words and sums of words back
into sums, and ``measuring`` makes a ``report`` of them.
"""

from ccesa.statistics.columns import Category, Number
from ccesa.statistics.report import Bin, Group, Measured, Quantile, Report
from ccesa.statistics.schema import Schema
from ccesa.statistics.table import read_csv

__all__ = ["Bin", "Category", "Group", "Measured", "Number", "Quantile", "Report", "Schema", "read_csv"]
