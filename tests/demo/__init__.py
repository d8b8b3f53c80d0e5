"""`make demo`: the main job, end to end; `make demo CLUSTER=current`: the same on a cluster of your own.

__main__   which of the two, and how it ends
telling    kubectl, and what a person sees
story      two namespaces opt in, a Workflow runs in each, and the cluster is shown: the same wherever it is told
local      a Kubernetes on this machine; needs root
current    the kubeconfig's cluster, the operator on this machine: plan, checks, story, and everything away again
checks     what is wrong with a cluster, all at once, before anything is done to it
bundle     the objects that the demo brings along: which are there, which are its own
process    the operator, which ends with the demo whatever happens
"""
