"""From a name or a folder to a model in memory, with one clear line where that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minrisk.errors import InputError, MinriskError
from minrisk.neural.linear import quickened
from minrisk.neural.packages import package, quiet

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.json")
CHECKPOINT_FILES = (*WEIGHT_FILES, "*.ckpt", "*.yaml", "*.model")
"""What decides the values of a model."""


@contextmanager
def loading(model: str, what: str = "model") -> Iterator[None]:
    """Says in one line that a model cannot be loaded, whatever is wrong with its files."""
    try:
        yield
    except (MinriskError, ImportError, MemoryError):
        raise
    except Exception as error:
        kind, said = type(error).__name__, " ".join(str(error).split())[:300]
        reason = f"it lacks {said}" if isinstance(error, KeyError) else f"{kind}: {said}"
        raise InputError(f"{what} {model!r} cannot be loaded: {reason}") from error


def folder_of(model: str, files: Sequence[str] = ("*",)) -> Path:
    """The folder of a model: the one given, or that of a hub name, downloaded unless it is there already."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_NAME.fullmatch(model) or model.startswith("."):
        raise InputError(f"there is no model folder {model!r}")
    hub = package("huggingface_hub")
    try:
        return Path(hub.snapshot_download(model, allow_patterns=list(files)))
    except Exception as error:
        raise _unreachable(model, error) from error


def _unreachable(model: str, error: Exception) -> MinriskError:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return InputError(
            f"model {model!r} is gated: accept its licence on its page, then `hf auth login` (or set HF_TOKEN)"
        )
    if kinds & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError", "Timeout"}:
        return InputError(
            f"model {model!r} is not on this machine and the hub cannot be reached; give a local folder, "
            f"or run `hf download {model}` where there is a network"
        )
    if kinds & {"RepositoryNotFoundError", "HFValidationError"}:
        return InputError(
            f"there is no model {model!r}, neither as a local folder nor on the hub (private ones need `hf auth login`)"
        )
    return InputError(f"model {model!r} cannot be had from the hub: {' '.join(str(error).split())}")


def devices_of(name: str) -> list[Any]:
    """The torch devices that a name stands for: a replica of the model goes onto each.

    name  "auto" (CUDA, else MPS, else CPU), "cpu", "mps", "cuda", "cuda:1", "all" (every GPU), or several with spaces
    """
    torch = package("torch")
    mps = torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    names = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if name == "all" else name.split()
    known = ["cpu", *(["mps"] if mps else []), *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    for given in names:
        if given not in known and not (given == "cuda" and torch.cuda.is_available()):
            raise InputError(f"`device` {given!r} is not to be had here; known: auto, {', '.join(known)}")
    if not names:
        raise InputError(f"`device` {name!r} is not to be had here; known: auto, {', '.join(known)}")
    return [torch.device(given) for given in names]


def dtype_of(name: str, *, half: bool = True) -> Any:
    """The torch type of a name; None for "auto", as the checkpoint has it. `half`: float16 does no harm."""
    known = {"auto": None, "float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
    if name not in known:
        raise InputError(f"`dtype` must be one of {', '.join(known)}, got {name!r}")
    if name == "float16" and not half:
        raise InputError("`dtype` float16 overflows in this model; use bfloat16 or float32")
    return None if name == "auto" else getattr(package("torch"), name)


def config_of(model: str) -> Any:
    """The configuration of a transformers model."""
    folder = folder_of(model, ("*.json",))
    if not (folder / "config.json").is_file():
        raise InputError(f"model folder {str(folder)!r} has no config.json")
    with quiet():
        return _loaded("configuration of", model, package("transformers").AutoConfig.from_pretrained, str(folder))


def tokenizer_of(model: str, **options: Any) -> Any:
    """The tokenizer of a transformers model."""
    folder = folder_of(model, TOKENIZER_FILES)
    with quiet():
        return _loaded(
            "tokenizer of", model, package("transformers").AutoTokenizer.from_pretrained, str(folder), **options
        )


def pretrained(model: str, kind: str = "AutoModel", dtype: Any = None, **options: Any) -> Any:
    """A transformers model with its weights, ready to be used; all of them must be there, but for an unused pooler."""
    folder = folder_of(model, WEIGHT_FILES)
    options |= {"output_loading_info": True, **_dtype_option(dtype)}
    with quiet():
        loader = getattr(package("transformers"), kind).from_pretrained
        loaded, report = _loaded("model", model, loader, str(folder), **options)
    missing = [key for key in report["missing_keys"] if kind != "AutoModel" or "pooler." not in key]
    _refuse_missing(missing, f"model {model!r}", f"a {type(loaded).__name__}")
    return quickened(loaded.eval().requires_grad_(False))


def _refuse_missing(keys: Sequence[str], place: str, what: str) -> None:
    """What a checkpoint lacks would be drawn at random, and so would the scores."""
    if keys:
        raise InputError(f"{place} lacks {len(keys)} weights of {what}, such as {min(keys)!r}")


def built(kind: str, config: Any, state: Mapping[str, Any], dtype: Any, place: str, **options: Any) -> Any:
    """A transformers model of a configuration and a state; every parameter must be in the state."""
    with quiet():
        name = type(config).__name__.replace("Config", "Model") if kind == "AutoModel" else kind
        loader = getattr(package("transformers"), name)
        made, report = _loaded(
            "encoder of",
            place,
            loader.from_pretrained,
            None,
            config=config,
            state_dict=dict(state),
            output_loading_info=True,
            **options,
        )
    _refuse_missing(list(report["missing_keys"]), f"checkpoint {place!r}", "its encoder")
    return quickened(made.to(dtype or package("torch").float32).eval().requires_grad_(False))


def state_of(folder: Path, stems: Sequence[str] = ("model", "pytorch_model")) -> dict[str, Any]:
    """All weights of a folder by name: safetensors or PyTorch's, in one file or in shards."""
    for stem, suffix in ((stem, suffix) for suffix in ("safetensors", "bin") for stem in stems):
        index = folder / f"{stem}.{suffix}.index.json"
        single = folder / f"{stem}.{suffix}"
        if index.is_file():
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        elif single.is_file():
            names = [single.name]
        else:
            continue
        state: dict[str, Any] = {}
        for name in names:
            state |= (
                package("safetensors.torch").load_file(folder / name)
                if suffix == "safetensors"
                else tensors_of(folder / name)
            )
        return state
    raise InputError(f"model folder {str(folder)!r} has no weights: model.safetensors or pytorch_model.bin")


def tensors_of(file: Path, mmap: bool = False) -> Any:
    """What a file of PyTorch holds, tensors and plain values alone: other objects could run code."""
    try:
        return package("torch").load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"weights {str(file)!r} are damaged, or more than tensors: {reason}") from error


def row_of(folder: Path, name: str, row: int) -> Any:
    """One row of one weight as float32, read alone where the format allows it; None if the weight is not there."""
    torch = package("torch")
    for file in sorted(folder.glob("*.safetensors")):
        with package("safetensors").safe_open(file, "pt") as weights:
            if name in weights.keys():  # noqa: SIM118
                return weights.get_slice(name)[row : row + 1][0].to(torch.float32)
    for file in sorted(folder.glob("*.bin")):
        state = tensors_of(file, mmap=True)
        if name in state:
            return state[name][row].to(torch.float32, copy=True)
    return None


def _dtype_option(dtype: Any) -> dict[str, Any]:
    """How this version of transformers is told the type of the weights."""
    major, minor = (int(part) for part in package("transformers").__version__.split(".")[:2])
    return {"dtype" if (major, minor) >= (4, 56) else "torch_dtype": "auto" if dtype is None else dtype}


def _loaded(what: str, place: str, loader: Any, *given: Any, **options: Any) -> Any:
    with loading(place, what):
        # Code that comes with a model is never run, nor does anyone ask whether it may be.
        return loader(*given, trust_remote_code=False, **options)
