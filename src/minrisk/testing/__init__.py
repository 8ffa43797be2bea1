"""Conformance suites: inherit one, name what is to be tested, and pytest runs every promise against it.

    class TestColumns(MethodSuite):
        method = Columns()

    class TestMyMetric(UtilitySuite):
        utility = MyMetric()

They need pytest, and nothing else.
"""

from minrisk.testing.methods import MethodSuite, waived_needlessly
from minrisk.testing.tables import random_segments, random_table, recorded
from minrisk.testing.utilities import UtilitySuite

__all__ = ["MethodSuite", "UtilitySuite", "random_segments", "random_table", "recorded", "waived_needlessly"]
