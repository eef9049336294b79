"""Optional packages: the extra of this distribution that brings each one, and the error if one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from xling.core.errors import UserError

EXTRAS = {
    "crawl": ("resiliparse", "brotli"),
    "mining": ("faiss",),
    "report": ("matplotlib",),
    "eval": ("seqeval", "sklearn", "rouge_score"),
    "slurm": ("submitit",),
    "track": ("wandb", "tensorboard"),
    "hub": ("transformers", "sacremoses"),
    "onnx": ("transformers", "onnx", "onnxscript", "onnxruntime"),
}
"""Packages of each extra in ``pyproject.toml``, by the names that are imported."""


def missing(package: str, user: str, extra: str) -> UserError:
    """Build the error for a package that is not installed.

    Args:
        package: the name that is imported.
        user: the command or the part that needs it.
        extra: the extra that brings it.
    """
    return UserError(f"{package} is not installed, and {user} needs it", fix=f"pip install 'xling[{extra}]'")


def require(names: str, user: str) -> None:
    """Check that the packages of extras are installed, without importing them.

    Args:
        names: extras, separated by spaces.
        user: the command that needs them.

    Raises:
        UserError: a package is missing; the message names it and the command that installs it.
    """
    for extra in names.split():
        for package in EXTRAS[extra]:
            if find_spec(package) is None:
                raise missing(package, user, extra)


def explained(error: ModuleNotFoundError, user: str) -> UserError | None:
    """Return the error to show for an import that failed, None if no extra brings the module."""
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
    return missing(package, user, extra) if extra else None
