"""Functions that are called in their own processes. Alone in this folder, so that no file shadows a module."""
