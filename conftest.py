"""How hard the property tests try: `full` in `make test`, `fast` in `make check`."""

import os

from hypothesis import HealthCheck, settings

# A tick's first run compiles and warms caches, so a deadline per example would only fail at random;
# print_blob shows how to run a failure again on another machine.
_SHARED = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("full", **_SHARED)
settings.register_profile("fast", max_examples=20, **_SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))
