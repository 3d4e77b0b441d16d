"""Compilation of programs to plans of the registry."""
