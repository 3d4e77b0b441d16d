"""Communicators, executors, algorithms, compilers and buffers."""
