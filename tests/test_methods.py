"""Every method keeps every promise."""

from minrisk.methods.columns import Columns
from minrisk.methods.full import Full
from minrisk.methods.pmbr import Pmbr
from minrisk.methods.square import Square
from minrisk.testing import MethodSuite


class TestFull(MethodSuite):
    method = Full()
    samples = False


class TestColumns(MethodSuite):
    method = Columns()


class TestSquare(MethodSuite):
    method = Square()


class TestPmbr(MethodSuite):
    method = Pmbr()


class TestPmbrAsPublished(MethodSuite):
    method = Pmbr(paper=True)
    exact = False
    scale_free = False
    shy = False


class TestPmbrBalanced(MethodSuite):
    method = Pmbr(design="balanced")


class TestPmbrWeighted(MethodSuite):
    method = Pmbr(design="weighted")


class TestPmbrSoftImpute(MethodSuite):
    method = Pmbr(completion="soft-impute")


class TestPmbrAdditive(MethodSuite):
    method = Pmbr(completion="additive")
