"""Types that programs of the reference import from its internal modules."""
