"""How each tool is called and how its output is read: one file for each. Nothing here starts a process."""
