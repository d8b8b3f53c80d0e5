"""Generated data without a stopwatch: the machine that runs the tests may be busy with a cluster."""

from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
