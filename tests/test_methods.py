"""Every method keeps every promise."""

from minrisk.methods.columns import Columns
from minrisk.methods.full import Full
from minrisk.methods.square import Square
from minrisk.testing import MethodSuite


class TestFull(MethodSuite):
    method = Full()
    samples = False


class TestColumns(MethodSuite):
    method = Columns()


class TestSquare(MethodSuite):
    method = Square()
