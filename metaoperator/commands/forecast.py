"""How a look at a whole fleet is told: to people, to programs, and in a comment on a pull request.

Whatever a fleet holds, what is written has an end: diffs are cut, and groups beyond the limit are counted.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from metaoperator.commands import telling
from metaoperator.core.skew import Finding, counted
from metaoperator.outlook import Group, Outlook, Part

DIFF_LINES: Final = 200
"""Lines of one object's diff; `metaoperator diff NAMESPACE` shows all of it."""
TEXT_LIMIT: Final = 1_000_000
MARKDOWN_LIMIT: Final = 60_000
"""Characters. GitHub takes 65,536 in a comment, GitLab a million."""
JSON_GROUPS: Final = 1000


def summary(found: Outlook) -> list[tuple[str, str]]:
    """Say in numbers what would happen."""
    changing, amiss = found.count("changes"), found.count("amiss")
    groups = sum(group.changes for group in found.groups)
    still = sum(len(each.namespaces) for each in found.groups if not each.changes and not each.amiss)
    gaining = sum(len(each.namespaces) for each in found.groups if each.widening)
    rows = [
        ("namespaces", str(found.total)),
        ("change", f"{changing}{f', in {groups} ways' if groups > 1 else ''}"),
        ("stay as they are", str(still)),
        ("wait for a person", str(amiss)),
        ("controllers that restart", str(found.sum("restarts"))),
        ("other Deployments that restart", str(found.sum("companions"))),
        ("controllers that go", str(found.sum("child_goes"))),
        ("objects deleted", str(found.sum("deletions"))),
        ("namespaces that gain permissions", str(gaining)),
    ]
    if leaving := found.count("leaving"):
        rows.append(("are on their way out already", str(leaving)))
    if found.failed:
        rows.append(("not looked at", str(len(found.failed))))
    for (before, after), number in sorted(found.versions.items()):
        if before != after and before:
            rows.append((f"Argo {before} to {after}", f"{number} namespace{'s' * (number > 1)}"))
    return rows


def widenings(found: Outlook) -> list[tuple[str, int]]:
    """Name each thing that is gained, and in how many namespaces."""
    counts: dict[str, int] = {}
    for group in found.groups:
        for told in group.widening:
            counts[told] = counts.get(told, 0) + len(group.namespaces)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def shown(group: Group) -> bool:
    """Tell whether a group is worth more than its part of the numbers."""
    return group.changes or group.amiss or group.leaving


# ---- text


def text(found: Outlook) -> str:
    """Write it for a terminal."""
    rows = summary(found)
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {value}" for name, value in rows]
    lines += _section("Permissions gained", (f"{told} ({number} namespaces)" for told, number in widenings(found)))
    lines += _section("Argo", map(_skew_line, found.skew))
    if found.skew_unknown:
        lines += ["", f"What Argo's versions need is not known: {found.skew_unknown}"]
    lines += _section("Not looked at", (f"{name}: {error}" for name, error in found.failed.items()))
    head = "".join(f"{telling.printable(line)}\n" for line in lines)
    groups = [group for group in found.groups if shown(group)]
    return _bounded(head, groups, _text_group, TEXT_LIMIT, "-o json tells more of them")


def _section(title: str, lines: Iterable[str]) -> list[str]:
    told = [f"  {line}" for line in lines]
    return ["", f"{title}:", *told] if told else []


def _skew_line(finding: Finding) -> str:
    return f"{finding.severity}: {finding.reason}: {finding} [{finding.who}]"


def _text_group(group: Group, *, diffs: bool) -> str:
    told = [counted(group.namespaces), *_told(group), *map(_part_line, group.parts)]
    head = "".join(f"# {telling.printable(' '.join(line.split()))}\n" for line in told)
    return f"\n{head}" + ("".join(_cut(part.diff) for part in group.parts) if diffs else "# (diffs left out)\n")


def _told(group: Group) -> Iterator[str]:
    """Say what there is to know besides the changes."""
    if group.stalled:
        yield group.stalled
    yield from group.notes
    if group.leaving:
        yield "not opted in: what is there is on its way out already, whatever changes"
    if group.restarts:
        yield "the controller restarts"
    if group.child_goes and not group.leaving:
        yield "the controller goes"
    if group.by_value:
        yield "compared by value only, for you may not write it: what the API server would add or refuse is not known"


def _part_line(part: Part) -> str:
    why = f": {part.why}" if part.why and part.what not in {"created", "changed"} else ""
    return f"{part.kind}/{part.name}: {part.what}{why}"


def _cut(diff: str) -> str:
    lines = diff.splitlines(keepends=True)
    if len(lines) <= DIFF_LINES:
        return diff
    return "".join(lines[:DIFF_LINES]) + f"# … {len(lines) - DIFF_LINES} more lines: metaoperator diff NAMESPACE\n"


def _bounded(head: str, groups: Sequence[Group], write: Callable[..., str], limit: int, more: str) -> str:
    """Add group after group, their diffs as long as the lines of all the others fit; what does not fit is counted."""
    limit -= 200  # for the last line
    written = head[:limit] + ("…\n" if len(head) > limit else "")
    short = [write(group, diffs=False) for group in groups]
    later = sum(map(len, short))
    for number, group in enumerate(groups):
        later -= len(short[number])
        whole = write(group, diffs=True) if len(written) + len(short[number]) + later <= limit else ""
        piece = whole if whole and len(written) + len(whole) + later <= limit else short[number]
        if len(written) + len(piece) > limit:
            left = groups[number:]
            many = sum(len(each.namespaces) for each in left)
            return f"{written}\n… {len(left)} more groups with {many} namespaces are left out: {more}\n"
        written += piece
    return written


# ---- markdown


def markdown(found: Outlook) -> str:
    """Write it for a comment on a pull request: the numbers in a table, each group behind its line."""
    lines = ["### Preview of the fleet", "", "| | |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in summary(found)]
    gained = widenings(found)
    lines += _bullets("Permissions gained", (f"{told} ({number} namespaces)" for told, number in gained))
    lines += _bullets("Argo", map(_skew_line, found.skew))
    if found.skew_unknown:
        lines += ["", f"What Argo's versions need is not known: {_escaped(found.skew_unknown)}"]
    lines += _bullets("Not looked at", (f"{name}: {error}" for name, error in found.failed.items()))
    if found.settled:
        lines += ["", "Nothing changes."]
    head = "\n".join(lines) + "\n"
    groups = [group for group in found.groups if shown(group)]
    return _bounded(head, groups, _markdown_group, MARKDOWN_LIMIT, "metaoperator diff --fleet tells them")


def _bullets(title: str, lines: Iterable[str]) -> list[str]:
    told = [f"- {_escaped(line)}" for line in lines]
    return ["", f"**{title}**", "", *told] if told else []


def _markdown_group(group: Group, *, diffs: bool) -> str:
    first = group.namespaces[0] + (", …" if len(group.namespaces) > 1 else "")
    many = len(group.namespaces)
    kinds = ", ".join(dict.fromkeys(f"{part.kind}/{part.name} {part.what}" for part in group.parts))
    what = group.stalled.partition(":")[0] or kinds or "on the way out"
    title = f"{many} namespace{'s' * (many != 1)} ({first}): {what}"
    lines = ["", f"<details><summary>{_escaped(title)}</summary>", "", _escaped(counted(group.namespaces)), ""]
    lines += [f"- {_escaped(told)}" for told in _told(group)]
    lines += [f"- {_escaped(_part_line(part))}" for part in group.parts]
    body = "".join(_cut(part.diff) for part in group.parts)
    if body and diffs:
        fence = _fence(body)
        lines += ["", f"{fence}diff", telling.printable(body).rstrip("\n"), fence]
    elif body:
        lines += ["", "The diffs are left out for their size."]
    return "\n".join([*lines, "", "</details>", ""])


def _fence(body: str) -> str:
    """Make a fence that nothing in it ends."""
    longest = max((len(each) for each in re.findall(r"`+", body)), default=0)
    return "`" * max(3, longest + 1)


def _escaped(line: str) -> str:
    """Write a line that is nothing but text, whatever somebody named something: no tag, link, mention or emphasis."""
    flat = html.escape(telling.printable(" ".join(line.split())), quote=False)
    return re.sub(r"([\\`*_\[\]|~@#!])", lambda found: f"&#{ord(found[0])};", flat)


def _cell(value: str) -> str:
    return _escaped(value)


# ---- JSON


def as_json(found: Outlook) -> dict[str, Any]:
    """Tell it to a program; every namespace is named, diffs are cut as for people."""
    groups = [group for group in found.groups if shown(group)]
    return {
        "settled": found.settled,
        "namespaces": found.total,
        "changed": found.count("changes"),
        "amiss": found.count("amiss"),
        "leaving": found.count("leaving"),
        "restarts": found.sum("restarts"),
        "companionRestarts": found.sum("companions"),
        "controllersGoing": found.sum("child_goes"),
        "objectsDeleted": found.sum("deletions"),
        "widening": [{"what": told, "namespaces": number} for told, number in widenings(found)],
        "versions": [
            {"from": before, "to": after, "namespaces": number}
            for (before, after), number in sorted(found.versions.items())
        ],
        "skew": [_finding(each) for each in found.skew],
        "skewUnknown": found.skew_unknown,
        "failed": [{"namespace": name, "error": str(error)} for name, error in found.failed.items()],
        "groups": [_group(each) for each in groups[:JSON_GROUPS]],
        "groupsLeftOut": max(0, len(groups) - JSON_GROUPS),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "reason": finding.reason,
        "message": finding.message,
        "cure": finding.cure,
        "namespaces": list(finding.namespaces),
        "objects": list(finding.objects),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "namespaces": group.namespaces,
        "changes": group.changes,
        "amiss": group.amiss,
        "stalled": group.stalled,
        "leaving": group.leaving,
        "restarts": group.restarts,
        "controllerGoes": group.child_goes,
        "byValue": group.by_value,
        "notes": list(group.notes),
        "widening": list(group.widening),
        "objects": [
            {
                "kind": part.kind,
                "name": part.name,
                "change": part.what,
                "why": part.why,
                "asked": part.asked,
                "diff": _cut(part.diff),
            }
            for part in group.parts
        ],
    }
