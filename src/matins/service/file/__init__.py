"""The file `matins.yaml`: planning and applying its changes, and writing changes back into it."""
