"""Joint statistics over the tables of several sites, of which the server sees only the sums.

All sites agree on a ``schema``. ``tally`` reads a site's file, counts it and leaves small groups out,
``packing`` turns a tally into words and sums of words into sums, and ``report`` shows them.
"""

from ccesa.statistics.report import Bin, Group, Measured, Quantile, Report
from ccesa.statistics.schema import Category, Number, Schema
from ccesa.statistics.tally import read_csv

__all__ = ["Bin", "Category", "Group", "Measured", "Number", "Quantile", "Report", "Schema", "read_csv"]
