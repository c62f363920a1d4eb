"""Work sources: agents claim items there, and Matins reports the outcomes."""
