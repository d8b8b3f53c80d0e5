"""Generated data without a stopwatch: the machine that runs the tests may be busy with a cluster.

`make test` tries the same examples each time: a red run says something about the change. `make soak` sets
HYPOTHESIS_PROFILE=soak: the same laws, 10,000 examples each, new ones in every run.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("busy"), derandomize=False, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))
