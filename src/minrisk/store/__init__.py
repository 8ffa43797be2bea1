"""The score store: what a metric has said of a pair of texts, kept in a file for every later run.

identity   what tells the values of one utility from those of any other
file       the SQLite file: made, recognised, refused
scores     pairs in and out
upkeep     statistics, export, pruning, checks
"""

from minrisk.store.scores import Pairs, Shelf, Store, stored

__all__ = ["Pairs", "Shelf", "Store", "stored"]
