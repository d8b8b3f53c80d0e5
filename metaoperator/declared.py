"""What manifests ask of template sets: those of ControllerTemplates, WorkflowControllers and labelled Namespaces."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metaoperator import packed, sources
from metaoperator.configmaps import ConfigMaps
from metaoperator.core import names, policy, trial
from metaoperator.core.errors import PolicyError, TemplateError
from metaoperator.core.finding import Finding, Severity
from metaoperator.core.model import Namespace
from metaoperator.core.shard import Policy
from metaoperator.core.trial import Layers
from metaoperator.inputs import Document, Place
from metaoperator.validation import Case, Judge

_OURS: Final = frozenset({"ConfigMap", "ControllerTemplate", "Namespace", "WorkflowController"})


@dataclass(slots=True)
class Declared:
    """What the manifests at hand declare, together: each is judged beside the others that it names."""

    judge: Judge
    cases: list[tuple[str, Case]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _templates: dict[str, tuple[Document, str]] = field(default_factory=dict)
    _namespaces: dict[str, Namespace] = field(default_factory=dict)
    _unpacked_sets: list[str] = field(default_factory=list)
    _configmaps: ConfigMaps = field(default_factory=ConfigMaps)

    def read(self, documents: Sequence[Document]) -> None:
        """Read all of them; whatever is of other kinds is passed by."""
        self._configmaps.read(documents)
        ours = [each for each in documents if self._named(each)]
        self._tell_twins(ours)
        for kind, reads in (
            (f"{names.API_VERSION} ControllerTemplate", self._template),
            ("v1 Namespace", self._namespace),
            (f"{names.API_VERSION} WorkflowController", self._row),
        ):
            for each in ours:
                if f"{each.body['apiVersion']} {each.body['kind']}" == kind:
                    reads(each)

    def _tell_twins(self, documents: Sequence[Document]) -> None:
        """Tell of an object that one file holds twice: whoever applies it gets the last one, be it empty."""
        first: dict[tuple[str, ...], Document] = {}
        for each in documents:
            kind, meta = str(each.body["kind"]), each.body["metadata"]
            if kind not in _OURS:
                continue
            namespace = str(meta.get("namespace") or "")
            twin = first.setdefault((str(each.place.file), kind, namespace, meta["name"]), each)
            if twin is not each:
                about = "/".join(filter(None, (kind, namespace, meta["name"])))
                line = twin.place.below("metadata").line
                what = f"is there twice, first on line {line}: the last one would be applied"
                self._tell(each.place.below("metadata"), what, "leave one of them", about)

    def _named(self, document: Document) -> bool:
        if document.body["apiVersion"] not in {"v1", names.API_VERSION}:
            return False
        meta = document.body.get("metadata")
        if isinstance(meta, Mapping) and isinstance(meta.get("name"), str):
            return True
        if document.body["apiVersion"] == names.API_VERSION:
            self._tell(document.place.below("metadata"), f"{document.body['kind']} has no name", "set metadata.name")
        return False

    # ---- kinds

    def _template(self, document: Document) -> None:
        name = document.body["metadata"]["name"]
        spec = _mapping(document.body.get("spec"))
        directory = _mapping(spec.get("source")).get("directory")
        about = f"ControllerTemplate/{name}"
        self._rollout(document, spec, about)
        if "configMap" in _mapping(spec.get("source")):
            directory = self._unpacked(document, name, about)
            if directory is None:
                return
        if "source" not in spec:
            what = f"has no spec.source: taken for a patch of one on the set {sources.DEFAULT_SET}"
            self._tell(document.place.below("spec"), what, "", about, Severity.NOTE)
            directory = sources.DEFAULT_SET
        if not isinstance(directory, str):
            place = document.place.below("spec", "source", "directory")
            self._tell(
                place, "spec.source.directory must name a template set", f"for example {sources.DEFAULT_SET}", about
            )
            return
        self._templates[name] = document, directory
        if directory not in self.judge.programs:
            if directory not in self.judge.broken:
                there = ", ".join(sorted(self.judge.programs)) or "none"
                place = document.place.below("spec", "source", "directory")
                self._tell(
                    place, f"there is no template set {directory}", f"there are: {there}; see --templates", about
                )
            return
        values = self._values(document, about)
        if values is not None:
            layers = Layers(fleet=values, template=name, policy=_policy(spec))
            place = document.place.below("spec", "values")
            self.cases.append((directory, Case(layers=layers, fleet=place, object=about)))

    def _unpacked(self, document: Document, name: str, about: str) -> str | None:
        """Find the set in its ConfigMaps, and name it as no directory can be; `None` where it is not to be had."""
        place = document.place.below("spec", "source", "configMap")
        source = _mapping(_mapping(document.body["spec"])["source"])
        wanted = _mapping(source["configMap"]).get("names")
        if "directory" in source or not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            cure = "exactly one of spec.source.directory and spec.source.configMap.names, a list of ConfigMaps"
            self._tell(place, "spec.source names no set", cure, about)
            return None
        try:
            found, folder = self._configmaps.find(wanted)
            if missing := [each for each in wanted if each not in found]:
                what = f"not checked: ConfigMap {', '.join(missing)} is not among the files"
                cure = "name its manifest too, or the kustomization that generates it"
                self._tell(place.below("names"), what, cure, about, Severity.NOTE)
                self._templates[name] = document, about
                return None
            self.judge.programs[about] = (
                folder,
                packed.program(name, {f"ConfigMap/{key}": found[key] for key in wanted}),
            )
        except TemplateError as exc:
            for each in exc.problems:
                self._tell(place.below("names"), str(each), "", about)
            self._templates[name] = document, about
            return None
        self._unpacked_sets.append(about)
        return about

    def _rollout(self, document: Document, spec: Mapping[str, Any], about: str) -> None:
        try:
            policy.Policy.read(spec)
        except PolicyError as exc:
            for problem in exc.problems:
                steps = re.findall(r"[^.\[\]]+", problem.where)
                self._tell(document.place.below(*steps), problem.what, problem.cure, about)

    def _namespace(self, document: Document) -> None:
        meta = document.body["metadata"]
        place = document.place.below("metadata", "labels", names.OPT_IN_LABEL)
        about = f"Namespace/{meta['name']}"
        texts = {key: _mapping(meta.get(key)) for key in ("labels", "annotations")}
        label = texts["labels"].get(names.OPT_IN_LABEL)
        if label is not None and not isinstance(label, str):
            self._tell(place, f"the label {names.OPT_IN_LABEL} is not text", 'write it in quotes, "enabled"', about)
            return
        namespace = Namespace(
            name=meta["name"],
            uid=trial.UID,
            labels={key: text for key, text in texts["labels"].items() if isinstance(text, str)},
            annotations={key: text for key, text in texts["annotations"].items() if isinstance(text, str)},
        )
        self._namespaces[namespace.name] = namespace
        template, refused = trial.asked_for(namespace)
        if refused:
            self._tell(place, refused, "", about)
        if template is not None:
            self._add(namespace, template, place, about)

    def _row(self, document: Document) -> None:
        meta = document.body["metadata"]
        about = f"WorkflowController/{meta.get('namespace', '')}/{meta['name']}"
        if meta["name"] != names.WORKFLOW_CONTROLLER:
            cure = f"name it {names.WORKFLOW_CONTROLLER}: the operator reads no other"
            self._tell(document.place.below("metadata", "name"), "has another name", cure, about)
        where = meta.get("namespace")
        if not isinstance(where, str):
            what = "has no metadata.namespace: its values are tried for a namespace team-a"
            self._tell(document.place.below("metadata"), what, "", about, Severity.NOTE)
            where = trial.ORDINARY.name
        namespace = self._namespaces.get(where) or Namespace(name=where, uid=trial.UID)
        pinned = _mapping(document.body.get("spec")).get("instanceID") or ""
        if pinned not in {"", where}:
            place = document.place.below("spec", "instanceID")
            what = f"spec.instanceID is {pinned!r}: only the component instance-id-pinned stamps it on Workflows there"
            self._tell(place, what, "leave it out, and it is filled in", about, Severity.NOTE)
        values = self._values(document, about)
        if values is not None:
            template = trial.asked_for(namespace)[0] or names.DEFAULT_TEMPLATE
            place = document.place.below("spec", "values")
            self._add(namespace, template, place, about, own=values, pinned=str(pinned))

    # ---- the same for all

    def _add(
        self,
        namespace: Namespace,
        template: str,
        place: Place,
        about: str,
        *,
        own: Mapping[str, Any] | None = None,
        pinned: str = "",
    ) -> None:
        """Try a namespace with the ControllerTemplate that it asks for, if that one is known."""
        document, directory = self._templates.get(template, (None, sources.DEFAULT_SET))
        if document is None and template != names.DEFAULT_TEMPLATE:
            what = f"not checked: ControllerTemplate {template} is not among the files"
            self._tell(place, what, "name its file too", about, Severity.NOTE)
        elif directory in self.judge.programs:
            spec = {} if document is None else _mapping(document.body.get("spec"))
            fleet = _mapping(spec.get("values"))
            case = Case(
                layers=Layers(fleet=fleet, own=own or {}, template=template, policy=_policy(spec), pinned=pinned),
                namespaces=(namespace,),
                fleet=None if document is None else document.place.below("spec", "values"),
                own=None if own is None else place,
                object=about,
            )
            self.cases.append((directory, case))

    def _values(self, document: Document, about: str) -> Mapping[str, Any] | None:
        values = _mapping(document.body.get("spec")).get("values")
        if values is not None and not isinstance(values, Mapping):
            self._tell(document.place.below("spec", "values"), "spec.values is not a mapping", "", about)
            return None
        return values or {}

    def _tell(self, place: Place, what: str, cure: str, about: str = "", severity: Severity = Severity.ERROR) -> None:
        path = ".".join(step for step in place.steps if step != "items")
        self.findings.append(
            Finding(
                file=str(place.file), line=place.line, object=about, path=path, what=what, cure=cure, severity=severity
            )
        )

    def judged(self) -> Iterator[Finding]:
        """Tell all that is wrong with the manifests."""
        yield from self.findings
        for name in self._unpacked_sets:
            yield from self.judge.promises(name)
            yield from self.judge.rights(name)
            yield from self.judge.try_out(name, [Case()])
        for name, case in self.cases:
            yield from self.judge.try_out(name, [case])


def _policy(spec: Mapping[str, Any]) -> Policy:
    """Read a policy as far as it is one: what else stands there, the CRD's schema refuses."""
    written = spec.get("instanceIDPolicy")
    return Policy(written) if written in set(Policy) else Policy.PER_NAMESPACE


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
