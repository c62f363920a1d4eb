"""What all tests share."""

from hypothesis import settings

# The same examples everywhere, and no limit on an example's time: other programs may have the cores.
settings.register_profile("matins", deadline=None, derandomize=True)
settings.load_profile("matins")
