"""How each tool is called and what its stream means: one file for each, and nothing here starts anything."""
