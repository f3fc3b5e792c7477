"""Helpers without graph semantics: formatting, validation, processes, statistics."""
