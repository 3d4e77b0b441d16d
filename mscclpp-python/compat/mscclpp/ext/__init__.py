"""Collections of algorithms."""

from mscclpp.ext.algorithm_collection_builder import AlgorithmCollectionBuilder

__all__ = ["AlgorithmCollectionBuilder"]
