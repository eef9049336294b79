"""Files of a test set that a model was trained on, by the manifests of the outputs that it was made of."""

from collections.abc import Iterable
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell


def training_files(checkpoint: Path) -> dict[str, str]:
    """Return SHA-256 -> path of each file that a model, and the outputs it was trained on, were made of."""
    path_of_digest: dict[str, str] = {}
    folders, seen = [checkpoint], set[Path]()
    while folders:
        folder = folders.pop()
        if folder in seen or not (folder / manifest.FILE_NAME).is_file():
            continue
        seen.add(folder)
        try:
            inputs = manifest.read(folder).inputs
        except UserError:  # told where the folder is read itself
            continue
        path_of_digest |= {digest: path for path, digest in inputs.items()}
        folders += map(Path, inputs)
    return path_of_digest


def warn_of_training_files(checkpoints: Iterable[Path], tests: Iterable[Path]) -> None:
    """Print a line for each model that was trained on files that are scored."""
    digests = {manifest.check_file(path): path for path in tests if path.is_file()}
    for checkpoint in checkpoints:
        trained_on = training_files(checkpoint)
        read = [str(path) for digest, path in digests.items() if digest in trained_on]
        if read:
            more = f" and {len(read) - 1} more" if len(read) > 1 else ""
            tell(
                f"xling: warning: {checkpoint} was trained on {read[0]}{more}, which is scored here: "
                "such a score says nothing about other text"
            )
