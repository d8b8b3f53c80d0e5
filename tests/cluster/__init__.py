"""A real Kubernetes on this machine, without a container engine: for the tests and the demo.

`python3 -m tests.cluster up` builds what is missing, starts a control plane and one node, and prints the
kubeconfig; `down` leaves nothing behind. Standard library only, so that it runs before any venv exists.

Read in this order:

    __main__        the commands
    lifecycle       up and down, as one sentence each
    recipes         what is built, at which versions
    toolchain       a Go that is new enough
    build           recipes → binaries in the cache
    debian          what the node needs from the distribution
    oci             layers and image archives, byte for byte the same each time
    images          the images of the test workloads; their names are constants for the tests
    operator_image  the image of the operator itself
    places          every path we use: all that a machine must be cleaned of is under these names
    processes       a process is a pid and a start time
    record          what is running, and what it changed on the machine
    network         the bridge, the API server's address
    cgroups         the parent of all pods' cgroups
    credentials     keys, tokens, kubeconfigs
    configs         the components' configuration files
    controlplane    etcd, API server, controller-manager, scheduler
    node            containerd, kubelet, images
    simulated       nodes and pods that are objects only, played by kwok
    leftovers       the way back to a clean machine, after `down` and after a crash

Nothing here imports the product, and the product imports nothing from here.
"""
