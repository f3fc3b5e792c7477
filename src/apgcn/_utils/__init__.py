"""Helpers without graph semantics, shared by all packages.

`validation` checks arguments, `formatting` prepares text for messages, `atomic` writes files and folders completely or
not at all, `limits` has control groups and memory limits, `process` defers signals, `lazy_import` imports public names
on first use, `significance` has bootstrap intervals and the aligned Friedman test. Import from the modules; none of
this is part of the public interface.
"""

__all__: list[str] = []
