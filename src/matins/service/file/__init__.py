"""The file `matins.yaml`: what it changes, having it applied, and changes written back into it."""
