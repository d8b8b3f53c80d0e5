"""A stub of Argo's workflow-controller, one for each version: it starts or says why it does not, as the real one.

It plays what cannot be run here. `controller.start` is the function, `python -m tests.argo` the process. For v4.0.5
the real program is asked the same questions (tests/contract/test_argo.py).
"""
