"""The files of one template set, packed into ConfigMaps: each key is a file, and nothing says which one holds it."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metaoperator import sources
from metaoperator.core import names
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.render import Program

Found = Mapping[str, Mapping[str, Any] | None]
"""ConfigMaps, `None` for those that are not there, under the words by which a person finds them."""


def names_of(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Read which ConfigMaps the spec of a ControllerTemplate names; `None` where its set is in a directory."""
    found = (spec.get("source") or {}).get("configMap")
    return None if found is None else tuple(found["names"])


def program(set_name: str, found: Found, before: object = None) -> Program:
    """Compile the set whose files these ConfigMaps hold, each under the words by which a person finds it.

    `before` is what came of them last: it is handed out again if the files are the same. `TemplateError` tells all that
    is wrong at once, each fault with the ConfigMap that has it.
    """
    texts, holders = _texts(found)
    if isinstance(before, Program) and before.template_set.texts == texts:
        return before
    try:
        return sources.from_texts(set_name, texts)
    except TemplateError as exc:
        raise TemplateError([_placed(each, set_name, holders, sorted(found)) for each in exc.problems]) from exc


def _texts(found: Found) -> tuple[dict[str, str], dict[str, str]]:
    """Put the files together, and tell which ConfigMap holds each of them."""
    texts: dict[str, str] = {}
    holders: dict[str, str] = {}
    problems: list[Problem] = []
    for where, live in found.items():
        if live is None:
            cure = f"create it, or correct spec.source.configMap.names; {sources.NOTHING}"
            problems.append(Problem(where=where, what="is not there", cure=cure))
            continue
        data, binary = live.get("data") or {}, live.get("binaryData") or {}
        files = sorted(filter(sources.is_part, {*data, *binary}))
        if not files:
            what = "holds no file of a template set" if data or binary else "is empty"
            cure = f"its keys are to be {', '.join(sources.DATA_FILES)} and *.yaml.j2; {sources.NOTHING}"
            problems.append(Problem(where=where, what=what, cure=cure))
        for file in files:
            if file in holders:
                what = f"holds {file}, and so does {holders[file]}"
                problems.append(Problem(where=where, what=what, cure="leave it in one of them"))
                continue
            holders[file] = where
            if file in data:
                texts[file] = str(data[file])
            else:
                problems.append(_binary(f"{where}/{file}", str(binary[file])))
    problems += _mixed(found)
    if problems:
        raise TemplateError(problems)
    return dict(sorted(texts.items())), holders


def _binary(where: str, encoded: str) -> Problem:
    """Say why a file stands in binaryData, where kubectl and kustomize put what is no text."""
    try:
        base64.b64decode(encoded, validate=True).decode()
    except UnicodeDecodeError as exc:
        return Problem(where=where, what=f"cannot be read: byte {exc.start + 1} is not UTF-8", cure="save it as UTF-8")
    except binascii.Error:
        return Problem(where=where, what="cannot be read: it is not base64", cure="put its text into data")
    return Problem(where=where, what="stands in binaryData", cure="put its text into data")


def _mixed(found: Found) -> list[Problem]:
    """Find ConfigMaps that say of themselves that they belong to different versions of the set."""
    annotation = names.SET_VERSION_ANNOTATION
    said = {
        where: str(((live.get("metadata") or {}).get("annotations") or {}).get(annotation, ""))
        for where, live in found.items()
        if live is not None
    }
    if len(set(said.values())) < 2:
        return []
    told = ", ".join(f"{where} {version or 'none'}" for where, version in said.items())
    cure = f"apply all of them in one version; {sources.NOTHING}"
    return [Problem(where=annotation, what=f"differs: {told}", cure=cure)]


def _placed(problem: Problem, set_name: str, holders: Mapping[str, str], everywhere: list[str]) -> Problem:
    """Say which ConfigMap a fault is in; what is missing could be in any of them."""
    file = problem.where.removeprefix(f"{set_name}/")
    if file in holders:
        return replace(problem, where=f"{holders[file]}/{file}")
    what = problem.what if file == set_name else f"{file} {problem.what}"
    return replace(problem, where=", ".join(everywhere), what=what)
