"""`make demo CLUSTER=current`, by a person without root, on the local cluster as if it were his own."""
