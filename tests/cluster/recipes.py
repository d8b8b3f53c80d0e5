"""What is built from Go modules: pinned versions, packages, link flags. Data only.

One family is one Go module under `tools/`, because the dependencies of different families clash. All
programs of a family come from one `go build`, which compiles what they share once.
"""

from dataclasses import dataclass, field

from . import places

KUBERNETES = "v1.36.3"
ETCD = "v3.6.16"
CONTAINERD = "v2.2.9"
ARGO = "v4.0.5"

ARGO_MODULE = "github.com/argoproj/argo-workflows/v4"
_CONTAINERD_MODULE = "github.com/containerd/containerd/v2"
_KWOK_MODULE = "sigs.k8s.io/kwok"
_K8S_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one family is built; the cache keys on everything here and on its go.mod and go.sum."""

    family: str
    programs: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    # Files that a module archive cannot carry (symlinks upstream): destination → source, in the vendor folder.
    vendored_copies: dict[str, str] = field(default_factory=dict)
    # Files that upstream builds before it compiles: destination in the vendor folder → content. Not in the repr, so that the
    # keys of families without any stay what they were.
    vendored_files: dict[str, str] = field(default_factory=dict, repr=False)
    # Files kept beside the programs: folder → (module, files in it). A module's archive is in the module
    # cache only until somebody cleans that.
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)

    def inputs(self) -> list[bytes]:
        """Return all that decides what is built: this recipe, and go.mod and go.sum, which pin every dependency."""
        folder = places.TOOLS / self.family
        files = [f"{path}: {content}".encode() for path, content in self.vendored_files.items()]
        return [repr(self).encode(), *files, *((folder / name).read_bytes() for name in ("go.mod", "go.sum"))]


RECIPES = (
    Recipe(
        family="kubernetes",
        programs={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
        },
        variables={
            f"{_K8S_VERSION}.gitVersion": KUBERNETES,
            f"{_K8S_VERSION}.gitMajor": KUBERNETES.removeprefix("v").split(".")[0],
            f"{_K8S_VERSION}.gitMinor": KUBERNETES.split(".")[1],
            f"{_K8S_VERSION}.gitTreeState": "clean",
        },
    ),
    Recipe(family="etcd", programs={"etcd": "go.etcd.io/etcd/server/v3"}),
    Recipe(
        family="containerd",
        programs={
            name: f"{_CONTAINERD_MODULE}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
        variables={f"{_CONTAINERD_MODULE}/version.Version": CONTAINERD},
    ),
    Recipe(
        family="argo",
        programs={name: f"{ARGO_MODULE}/cmd/{name}" for name in ("workflow-controller", "argoexec", "argo")},
        variables={f"{ARGO_MODULE}.version": ARGO},
        vendored_copies={
            f"{ARGO_MODULE}/workflow/executor/osspecific/signal_linux.go": (
                f"{ARGO_MODULE}/workflow/executor/osspecific/signal_darwin.go"
            ),
        },
        # The web pages of `argo server`, which need Node.js to be built, and which no test opens.
        vendored_files={f"{ARGO_MODULE}/ui/dist/app/index.html": "<!doctype html><title>No user interface</title>\n"},
        # Without the kustomization and the readme beside them, so that `kubectl apply -f <folder>` works.
        kept={
            f"crds/{kind}": (ARGO_MODULE, f"manifests/base/crds/{kind}/argoproj.io_*.yaml")
            for kind in ("full", "minimal")
        },
    ),
)

# Built when somebody first asks for a program of it: a cluster comes up without.
ON_DEMAND = (
    Recipe(
        family="kwok",
        programs={"kwok": f"{_KWOK_MODULE}/cmd/kwok"},
        kept={
            "stages/pod": (_KWOK_MODULE, "kustomize/stage/pod/fast/pod-*.yaml"),
            "stages/node": (_KWOK_MODULE, "kustomize/stage/node/fast/node-*.yaml"),
            "stages/heartbeat": (_KWOK_MODULE, "kustomize/stage/node/heartbeat-with-lease/node-*.yaml"),
        },
    ),
)


def by_family(family: str) -> Recipe:
    """Return the recipe of one family."""
    return next(recipe for recipe in (*RECIPES, *ON_DEMAND) if recipe.family == family)
