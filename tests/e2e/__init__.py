"""End to end: the operator as a pod, real controllers, a real node."""
