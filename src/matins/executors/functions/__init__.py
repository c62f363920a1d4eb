"""Functions that are called in processes of their own; alone in this folder, so that nothing stands in for a module."""
