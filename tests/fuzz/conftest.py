"""How much is tried: ``--hypothesis-profile=long`` tries a hundred times as much as the normal run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples in every normal run, and nothing written to the disk. A busy machine is no fault.
_ALWAYS = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("usual", max_examples=60, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=6000, print_blob=True, **_ALWAYS)
settings.load_profile("usual")
