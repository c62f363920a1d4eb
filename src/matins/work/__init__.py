"""Where agents get their work from, and where its outcome is told."""
