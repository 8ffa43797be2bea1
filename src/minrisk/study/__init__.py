"""The experiments of the paper on anyone's samples: matrices, spectra, tuning, simulation, tables and figures.

    from minrisk import study, utility

    store = study.build_store("samples.jsonl", utility("chrf"), "matrices", metrics=[utility("bleu")])
    records = study.simulate(store, "records", study.Design(sizes=(64, 128), trials=100))
    study.write_tables(records, "tables")
    study.write_figures(records, "figures")

With more than one worker, a script needs `if __name__ == "__main__":` around such lines.
"""

from __future__ import annotations

from minrisk.study.baselines import PAPER, Contender, PaperColumns, PaperSquare, contenders
from minrisk.study.figures import write_figures, write_spectrum_figure
from minrisk.study.records import Records
from minrisk.study.report import write_tables
from minrisk.study.simulation import BUDGETS, SIZES, TRIALS, Design, simulate
from minrisk.study.source import prepared_store
from minrisk.study.spectra import Spectrum, spectrum, write_spectra
from minrisk.study.store import POOL, Pool, Store, build_store, import_matrices
from minrisk.study.summary import Comparison, Summary, bootstrap, compared, summarize
from minrisk.study.tuning import Grid, Tuned, tune, tuned_method

__all__ = [
    "BUDGETS",
    "PAPER",
    "POOL",
    "SIZES",
    "TRIALS",
    "Comparison",
    "Contender",
    "Design",
    "Grid",
    "PaperColumns",
    "PaperSquare",
    "Pool",
    "Records",
    "Spectrum",
    "Store",
    "Summary",
    "Tuned",
    "bootstrap",
    "build_store",
    "compared",
    "contenders",
    "import_matrices",
    "prepared_store",
    "simulate",
    "spectrum",
    "summarize",
    "tune",
    "tuned_method",
    "write_figures",
    "write_spectra",
    "write_spectrum_figure",
    "write_tables",
]
