"""Unfinished outputs: what an interrupted training left beside its ``out=``, made with other settings or data."""

import shutil
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell


class OtherSettingsError(UserError):
    """A saved state in the folder of an unfinished training was made with other settings or data."""


def refuse(state: Path, folder: Path, changed: str = "") -> OtherSettingsError:
    """Build the error for a saved state of other settings.

    Args:
        changed: what differs; empty where that is not known.
    """
    what = f": {changed}" if changed else ""
    return OtherSettingsError(
        f"{state} was made with other settings or data{what}",
        fix="give the old settings again, choose another out=, "
        f"or add overwrite=true to delete {folder} and start again",
    )


def replace(folder: Path, error: OtherSettingsError) -> None:
    """Delete the folder of an unfinished training of other settings, if ``overwrite=true`` was given.

    Raises:
        OtherSettingsError: it was not given.
    """
    if not manifest.may_overwrite():
        raise error
    tell(
        f"xling: {error.given}; overwrite=true was given: {folder} is deleted, and the training starts again"
    )
    shutil.rmtree(folder)
