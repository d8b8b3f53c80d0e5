"""Generated data without a stopwatch: the machine that runs the tests may be busy with a cluster.

`make soak` sets HYPOTHESIS_PROFILE=soak: the same laws, 10,000 examples each.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("busy"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))
