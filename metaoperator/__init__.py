"""The meta-operator keeps one Argo workflow-controller running in every namespace that opts in.

::

    events, resync ──► a name in the queue ──► reconcile(name):
                                                 gather   what the API server says now
                                                 decide   desired state, plan, health: values with a reason
                                                 act      server-side apply, prune, one status write
                                               ◄── when to look again

The map, top to bottom; imports point down and `make arch` checks it:

=================  ====================================================================
`cli`              the command `metaoperator`: the door, and how every fault is answered
`commands`         what each command does: one module per command
`operator`         how the parts are started, supervised and stopped
`handlers`         kopf: an event becomes a name, nothing else
`probes`           /healthz, /readyz, /metrics
`worker`           drains the queue; one namespace's failure stays its own
`preflight`        what a cluster lacks before the first label: one module per question
`outlook`          the same for a whole fleet, equal changes told once: `diff --fleet`
`preview`          the operator's next pass over a namespace, rehearsed: `diff`
`pretence`         what a preview pretends to stand in the cluster
`reconcile`        gather, decide, act for one name
`wanted`           what a namespace should hold: its row, its ID, what is rendered
`recent`           what was rendered last
`sweep`            what exists gets its instance ID
`broom`            its writes: one label on one version of one object
`stays`            what it leaves as it is, and why
`begun`            what some controller has begun
`artifactgc`       pods that delete artifacts get the label that Argo forgets
`row`              the WorkflowController of a namespace: made, filled in, held
`adopt`            hand-made installs, read before they are taken over
`templates`        ControllerTemplates: the set that one names, and its status
`leave`            the way out: drained, then removed
`brake`            counts the children that are to go, before the first of them does
`drain`            a drain's steps: hands back, waits, deletes
`newcomers`        Workflows without an ID that come meanwhile
`act`              carries out a plan
`publish`          the status of a WorkflowController
`strays`           Workflows that wait in vain
`fleet`            what we watch of the children
`catalogue`        the template set of each ControllerTemplate, and news of it
`parcels`          sets in ConfigMaps of the operator's namespace
`skew`             what the cluster says of moves to another version of Argo
`surroundings`     what around a child decides whether it may be installed
`foreigners`       workflow-controllers that are not ours
`stamping`         whether new Workflows get their instance ID
`mirror`           what kopf watches, read through on demand
`recorder`         Events for people
`revisions`        what each namespace was given, and the sets it came from
`records`          ControllerRevisions of ours: watched, read, written
`election`         the Lease: who may write, and until when
`batches`          writes to many objects, some at a time
`informer`         list and watch, kept true across every kind of cut
`shelves`          sets in directories, looked at again and again
`declared`         what people's manifests ask of template sets: `validate`
`configmaps`       ConfigMaps among people's manifests
`packed`           the files of a set, packed into ConfigMaps
`validation`       template sets, judged without a cluster
`bundle`           the manifests that travel with the package
`inputs`           what the paths given to `validate` are
`rehearsal`        a cluster in which everything is asked and nothing is written
`cluster`          the only module that speaks to Kubernetes
`gate`             lets writes through while this replica leads
`sources`          template sets, read from directories or from the texts of their files
`kept`             what the shipped sets' templates were compiled to
`renderer`         which code renders
`unheard`          errors that nobody waits for
`settings`         every flag and variable
`core`             pure: names, model, rendering, planning, health, status
=================  ====================================================================
"""

__version__ = "0.1.0"
