"""Nothing that is loaded can run code, and no secret ends up where others may read it."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minrisk
from minrisk import PairUtility, Segment, decode_corpus
from minrisk.types import FloatArray

PACKAGE = Path(minrisk.__file__).parent
GOLDEN = Path(__file__).parent / "neural" / "golden"
KEY = "sk-0123456789abcdef"
UNSAFE = {"cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def nodes() -> list[tuple[str, Any]]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [(file.name, node) for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]


def option(call: ast.Call, name: str) -> object:
    return next((getattr(given.value, "value", ...) for given in call.keywords if given.arg == name), None)


def test_no_file_is_read_as_code() -> None:
    for file, node in nodes():
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle":
            assert node.attr == "UnpicklingError", file  # What a reader of tensors says of anything else.
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in UNSAFE | {"pickle"}, file
        if isinstance(node, ast.Import):
            assert not {name.name.split(".")[0] for name in node.names} & UNSAFE, file
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        assert called not in ("eval", "exec", "compile"), file
        if called in ("torch.load", "package('torch').load"):
            assert option(node, "weights_only") is True, file
        if called in ("np.load", "numpy.load"):
            assert option(node, "allow_pickle") is False, file
        if called.endswith("from_pretrained"):
            assert option(node, "trust_remote_code") is False, file


class Marking:
    """What is unpickled leaves a file."""

    def __reduce__(self) -> Any:
        return Path("ran").touch, ()


@pytest.mark.parametrize(("name", "folder"), [("nli", "nli"), ("bleurt", "bleurt")])
@pytest.mark.filterwarnings("ignore")
def test_weights_that_are_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, folder: str
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / folder, "model")
    for weights in (*Path("model").glob("*.safetensors"), *Path("model").glob("*.bin")):
        weights.unlink()
    Path("model/pytorch_model.bin").write_bytes(pickle.dumps({"weight": Marking()}))
    with pytest.raises(minrisk.InputError, match=r"more than tensors|cannot be loaded"):
        minrisk.utility(name, model="model").score(["a"], ["b"])
    assert not Path("ran").exists()


@pytest.mark.filterwarnings("ignore")
def test_code_that_comes_with_a_model_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / "nli", "model")
    settings = json.loads(Path("model/config.json").read_text())
    classes = {
        "AutoConfig": "own.Own",
        "AutoModelForSequenceClassification": "own.Own",
        "AutoTokenizer": ["own.Own", None],
    }
    Path("model/config.json").write_text(json.dumps(settings | {"model_type": "own", "auto_map": classes}))
    Path("model/own.py").write_text("from pathlib import Path\nPath('ran').touch()\nclass Own: pass\n")
    with pytest.raises(minrisk.InputError):
        minrisk.utility("cross_encoder", model="model", label=0).score(["a"], ["b"])
    assert not Path("ran").exists()


@dataclass(frozen=True)
class Judge(PairUtility):
    """A metric that is given its key as an option."""

    name = "judge"
    model: str = "large"
    api_key: str = ""

    def score(self, candidates: Any, pseudo_references: Any, sources: Any = None) -> FloatArray:
        if self.model == "refused":
            raise ConnectionError(f"401: incorrect key {os.environ.get('JUDGE_KEY')}")
        return np.array([float(len(candidate)) for candidate in candidates])


def test_keys_are_not_in_signatures_stores_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    judge = Judge(api_key=KEY)
    segments = [Segment(hypotheses=["a", "b"])]
    list(decode_corpus(segments, judge, store=tmp_path / "scores.db"))
    assert judge.signature() == "judge(model=large)"
    assert KEY not in minrisk.Configuration(judge).signature()
    with pytest.raises(minrisk.UtilityError, match=r"401: incorrect key \$JUDGE_KEY"):
        list(decode_corpus(segments, Judge("refused", KEY), store=tmp_path / "scores.db"))
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


SCRIPT = """
import os

def score(candidates, pseudo_references):
    if os.path.exists("refuse"):
        raise ConnectionError("incorrect key " + os.environ["JUDGE_API_KEY"])
    open("refuse", "w").close()
    return [float(len(candidate)) for candidate in candidates]
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_keys_are_in_no_file_and_no_message_of_a_command(tmp_path: Path, workers: str) -> None:
    (tmp_path / "judge.py").write_text(SCRIPT)
    lines = [json.dumps({"hypotheses": [f"{n}", f"{n} b"]}) for n in range(8)]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "minrisk",
        "decode",
        "samples.jsonl",
        "--utility",
        "judge.py:score",
        "--window",
        "2",
    ]
    command += ["--utility-set", "label=judge", "--store", "scores.db", "-o", "out.jsonl", "--signature"]
    environment = os.environ | {"JUDGE_API_KEY": KEY}
    done = subprocess.run([*command, "--workers", workers], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 2
    assert b"incorrect key $JUDGE_API_KEY" in done.stderr
    assert KEY.encode() not in done.stdout + done.stderr
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"scores.db", "out.jsonl.partial"} <= {file.name for file in written}
    for file in written:
        assert KEY.encode() not in file.read_bytes()


def test_files_have_the_permissions_that_the_user_gives_and_lie_where_they_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text('{"hypotheses": ["a", "b"]}\n')
    command = [sys.executable, "-m", "minrisk", "decode", "samples.jsonl", "--store", "scores.db", "-o", "out.jsonl"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, preexec_fn=lambda: os.umask(0o077) and None)
    assert {file.name for file in tmp_path.iterdir()} == {"samples.jsonl", "scores.db", "out.jsonl"}
    for name in ("scores.db", "out.jsonl"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
