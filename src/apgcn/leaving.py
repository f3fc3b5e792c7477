"""How does this process end? At once, where threads of an engine that has lost its others would abort it."""

from __future__ import annotations

_at_once = False


def leave_at_once() -> None:
    """From now on the command ends without waiting for anybody."""
    global _at_once
    _at_once = True


def leaves_at_once() -> bool:
    """Whether that was said."""
    return _at_once
