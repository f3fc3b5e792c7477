"""Public names of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], hints: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose public names are imported on first use (PEP 562).

    Parameters
    ----------
    package : str
    modules : mapping
        Names by the module that has them; a module without a dot is one of the package.
    hints : mapping, optional
        What to add to the error message about a missing name.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get_name(name: str) -> Any:
        if name not in module_of:
            hint = f"; {hints[name]}" if hints and name in hints else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module = module_of[name]
        return getattr(import_module(module if "." in module else f"{package}.{module}"), name)

    return get_name, lambda: sorted(module_of)
