"""Optional packages: the extra of this distribution that brings each one, and the error if one is missing."""

from importlib.util import find_spec

from xling.core.errors import UserError

EXTRAS = {
    "train": ("torch", "fairseq", "sacrebleu"),
    "mining": ("faiss",),
    "report": ("matplotlib",),
    "eval": ("seqeval", "sklearn", "rouge_score"),
    "slurm": ("submitit",),
    "track": ("wandb", "tensorboard"),
    "hub": ("transformers", "sacremoses"),
    "onnx": ("transformers", "onnx", "onnxscript", "onnxruntime"),
    "office": ("polib", "python_calamine"),
}
"""Packages of each extra in ``pyproject.toml``, by the names that are imported."""


def missing_package_error(package: str, needed_by: str, extra: str) -> UserError:
    """Build the error for a package that is not installed."""
    return UserError(
        f"{package} is not installed, and {needed_by} needs it", fix=f"pip install 'xling[{extra}]'"
    )


def require(names: str, needed_by: str) -> None:
    """Check that the packages of extras are installed, without importing them.

    Args:
        names: extras, separated by spaces.
        needed_by: the command that needs them.

    Raises:
        UserError: a package is missing; the message names it and the command that installs it.
    """
    for extra in names.split():
        for package in EXTRAS[extra]:
            if find_spec(package) is None:
                raise missing_package_error(package, needed_by, extra)


def explain_import_error(error: ModuleNotFoundError, needed_by: str) -> UserError | None:
    """Return the error to show for an import that failed, None if no extra brings the module."""
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
    return missing_package_error(package, needed_by, extra) if extra else None
