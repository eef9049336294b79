"""Tables of the package: YAML files beside the modules that use them."""

from importlib.resources import files
from typing import Any

import yaml


def load_table(package: str | None, name: str, as_text: bool = False) -> Any:
    """Return the values in a YAML file of a package.

    Args:
        package: ``__package__`` of the module that calls.
        name: of the file.
        as_text: every scalar as text, as in recipes.
    """
    assert package, name
    # libyaml reads a table in a tenth of the time or less; nearly every wheel of PyYAML has it.
    kind = "BaseLoader" if as_text else "SafeLoader"
    loader = getattr(yaml, f"C{kind}", getattr(yaml, kind))
    return yaml.load((files(package) / name).read_text(encoding="utf-8"), Loader=loader)
