"""A cluster decodes as one process does, whatever dies on the way."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minrisk.cli.main import main

WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "under",
    "mat",
    "tree",
    "red",
    "blue",
    "quickly",
    "slowly",
    "river",
]
JUDGE = """
import os, signal, threading

LOCK = threading.Lock()

def overlap(candidates, pseudo_references):
    return [float(len(set(one.split()) & set(other.split()))) for one, other in zip(candidates, pseudo_references)]

def deadly(candidates, pseudo_references):
    # The parent of an actor is the raylet of its node.
    for word, process in (("actor", os.getpid()), ("node", os.getppid())):
        if any(f"kill the {word}" in text for text in candidates) and "MINRISK_TEST_DEADLY" in os.environ:
            try:
                os.close(os.open(os.path.join(os.environ["MINRISK_TEST_DEADLY"], word), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(process, signal.SIGKILL)
    return overlap(candidates, pseudo_references)

def fussy(candidates, pseudo_references):
    if any("surrogate" in text for text in candidates):
        raise ValueError("no surrogates, please")
    return overlap(candidates, pseudo_references)

def sizes(candidates, pseudo_references):
    return [float(len(candidates))] * len(candidates)

def fatal(candidates, pseudo_references):
    os._exit(9)

def locked(candidates, pseudo_references):
    with LOCK:
        return overlap(candidates, pseudo_references)
"""


def _segments() -> list[dict[str, Any]]:
    rng = random.Random(7)
    segments: list[dict[str, Any]] = []
    for number in range(240):
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(rng.randint(3, 25))]
        segments.append({"source": f"source {number}", "hypotheses": texts})
        if number % 3:
            segments[-1]["id"] = f"news-{number}"
    segments[60]["hypotheses"].append("kill the actor")
    segments[150]["hypotheses"].append("kill the node")
    return segments


SEGMENTS = _segments()


def _written(path: Path, segments: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(segment) + "\n" for segment in segments))
    return path


@pytest.fixture
def judge(tmp_path: Path) -> str:
    (tmp_path / "judge.py").write_text(JUDGE)
    return str(tmp_path / "judge.py")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three nodes with processes of their own on this machine; what is in the folder has been killed."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'minrisk[ray]'")
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("killed")
    os.environ |= {"MINRISK_TEST_DEADLY": str(folder), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    size = {"object_store_memory": 100 << 20}
    # A node that was killed refuses to answer at once; one that is only slow, as on a busy machine, has time to.
    quick = {"health_check_period_ms": 500, "health_check_timeout_ms": 20_000, "health_check_failure_threshold": 3}
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": quick, **size},
    )
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=2, num_gpus=1, **size)
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield folder
    finally:
        ray.shutdown()
        nodes.shutdown()
        del os.environ["MINRISK_TEST_DEADLY"]


pytestmark = pytest.mark.filterwarnings("default")  # Ray's own are not ours to fix.


def _decode(*arguments: object) -> int:
    return main(["decode", *map(str, arguments)])


RAY = "--engine", "ray", "--replicas", 2
PMBR = "--method", "pmbr", "--budget", "1/4"


def test_a_folder_is_read_and_parquet_is_written(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "shards").mkdir()
    for number in range(4):
        _written(tmp_path / "shards" / f"part-{number}.jsonl", SEGMENTS[60 * number : 60 * (number + 1)])
    _written(tmp_path / "whole.jsonl", SEGMENTS)
    options = *PMBR, "--nbest", 2, "-o"
    assert _decode(tmp_path / "whole.jsonl", *options, tmp_path / "local.parquet") == 0
    spent = capsys.readouterr().err.partition(";")[0]
    assert _decode(tmp_path / "shards", *RAY, *options, f"file://{tmp_path}/ray.parquet") == 0
    assert capsys.readouterr().err.partition(";")[0] == spent
    assert (tmp_path / "ray.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()
    rows = parquet.read_table(tmp_path / "ray.parquet").to_pylist()
    assert [row["id"] for row in rows[:4]] == ["0", "news-1", "news-2", "3"]
    assert rows[0]["nbest"][0]["text"] == rows[0]["selected"]


def test_a_dataset_of_segments_becomes_one_of_decisions(cluster: Path) -> None:
    import ray

    import minrisk
    import minrisk.ray

    decisions = minrisk.decode_corpus(SEGMENTS, "chrf", "pmbr", "1/4")
    decided = minrisk.ray.decode(ray.data.from_items(SEGMENTS), "chrf", "pmbr", "1/4", nbest=1, gpus_per_replica=1)
    for segment, row, decision in zip(SEGMENTS, decided.take_all(), decisions, strict=True):
        assert row.pop("id") == segment.get("id")
        choice = {"index": decision.index, "utility": decision.utility}
        assert row.pop("nbest") == [{"text": decision.text} | choice]
        assert row == {"selected": decision.text, "calls": decision.calls, "cells": decision.cells} | choice


def test_what_the_metric_lacks_is_told_in_one_line(
    cluster: Path, tmp_path: Path, judge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = _written(tmp_path / "samples.jsonl", [*SEGMENTS, {"id": "odd", "hypotheses": ["lone \ud800 surrogate"]}])
    assert (
        _decode(samples, "--utility", f"{judge}:fussy", *RAY, "--gpus-per-replica", 0.5, "-o", tmp_path / "out.jsonl")
        == 2
    )
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(
        r"minrisk: error: utility 'fussy', batch of \d+ pairs \(segment 'news-\d+' among them\): "
        "ValueError: no surrogates, please; what is decided is kept in ",
        last,
    )
    assert not (tmp_path / "out.jsonl").exists()


def test_what_was_decided_and_scored_before_is_not_paid_again(
    cluster: Path, tmp_path: Path, judge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = _written(tmp_path / "samples.jsonl", SEGMENTS)
    utility = "--utility", f"{judge}:overlap", "--utility-set", "label=overlap-1"
    options = samples, *utility, *PMBR, "-o"
    assert _decode(*options, tmp_path / "local.jsonl") == 0
    _written(samples, [*SEGMENTS[:100], {"hypotheses": []}])
    out = tmp_path / "ray.jsonl"
    store = "--store", tmp_path / "scores.db", "--window", 8
    assert _decode(*options, out, *RAY, *store) == 2
    assert "line 101: `hypotheses` is empty" in capsys.readouterr().err
    _written(samples, SEGMENTS)
    assert _decode(*options, out, *RAY, *store) == 0
    assert "going on after 96 segments" in capsys.readouterr().err
    assert out.read_bytes() == (tmp_path / "local.jsonl").read_bytes()
    assert _decode(*options, out, *store) == 0
    numbers = re.search(r"([\d,]+) calls .* ([\d,]+) of them found in the store, 1 of them", capsys.readouterr().err)
    assert numbers is not None
    calls, found = (int(number.replace(",", "")) for number in numbers.groups())
    assert calls == found + 1
    assert out.read_bytes() == (tmp_path / "local.jsonl").read_bytes()


def test_pairs_of_several_segments_are_packed_together(cluster: Path, tmp_path: Path, judge: str) -> None:
    segments = [{"hypotheses": [f"{number} {place}" for place in range(4)]} for number in range(8)]
    samples = _written(tmp_path / "samples.jsonl", segments)
    full = "--method", "full", "--budget", "1.0", "-o", tmp_path / "out.jsonl"
    assert _decode(samples, "--utility", f"{judge}:sizes", "--utility-set", "batch_size=64", *RAY, *full) == 0
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["utility"] for record in records] == [64.0] * 8  # Of 16 pairs each.


def test_a_metric_that_kills_every_actor_ends_the_run(
    cluster: Path, tmp_path: Path, judge: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minrisk.ray.RETRIES", 1)
    samples = _written(tmp_path / "samples.jsonl", SEGMENTS[:3])
    assert _decode(samples, "--utility", f"{judge}:fatal", *RAY, "-o", tmp_path / "out.jsonl") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("minrisk: error: ")]
    assert len(errors) == 1
    assert "actors died 2 times over the same segments: the metric may end its process" in errors[0]


def test_a_metric_that_cannot_be_sent_is_told_at_once(
    cluster: Path, tmp_path: Path, judge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = _written(tmp_path / "samples.jsonl", SEGMENTS[:3])
    assert _decode(samples, "--utility", f"{judge}:locked", *RAY) == 2
    printed = capsys.readouterr().err
    assert "actors cannot be given utility 'locked' or its method" in printed
    assert printed.count("\n") == 1


def test_an_actor_and_a_node_may_die(cluster: Path, tmp_path: Path, judge: str) -> None:
    samples = _written(tmp_path / "samples.jsonl", [*SEGMENTS, {"hypotheses": ["lone \ud800 surrogate", "a cat"]}])
    options = samples, "--utility", f"{judge}:deadly", *PMBR, "--nbest", 3, "--window", 8, "-o"
    assert _decode(*options, tmp_path / "ray.jsonl", *RAY) == 0
    assert {path.name for path in cluster.iterdir()} == {"actor", "node"}
    assert _decode(*options, tmp_path / "local.jsonl") == 0
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replicas", "2"], "--replicas goes with --engine ray"),
        (["--engine", "ray", "--num-candidates", "4"], "not flat text"),
        (["--engine", "ray", "--gpus-per-replica", "-1"], "`gpus_per_replica` must be zero or more"),
        (["--engine", "ray", "--gpus-per-replica", "8"], "no node of the cluster has what a replica needs"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], message: str, cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = _written(tmp_path / "samples.jsonl", SEGMENTS[:3])
    assert _decode(samples, *arguments) == 2
    assert message in capsys.readouterr().err


def test_waiting_for_nodes_is_not_silent(cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    from minrisk.ray import Share

    assert Share.of(3, None, 8.0, spare_cpus=0) == Share(3, 0.0, 8.0)
    assert caplog.messages == [
        "minrisk: no node of the cluster has what a replica needs (0 CPUs, 8 GPUs); waiting for one that has"
    ]


def test_without_ray_one_line_says_what_to_install(tmp_path: Path) -> None:
    samples = _written(tmp_path / "samples.jsonl", SEGMENTS[:3])
    code = (
        "import sys; sys.modules['ray'] = None; from minrisk.cli.main import main; "
        f"sys.exit(main(['decode', {str(samples)!r}, '--engine', 'ray']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == ("minrisk: error: decoding on Ray needs an optional dependency: pip install 'minrisk[ray]'\n")
