"""Names that users of the five systems know, in Python spelling, on top of Matins' own engine."""
