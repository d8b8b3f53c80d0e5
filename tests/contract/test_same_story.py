"""Random stories, told to the fake and to the real API server at once: they must end alike after every sentence."""

import os
import random
from typing import Any

import aiohttp
import pytest

from tests.fake import FakeApiServer

from .builders import config_map, container, deployment, widget
from .client import Answer, Api, Manifest, connect, eventually, manifest, path_of
from .conftest import KINDS, definition

MANAGERS = ("ann", "bob", "eve")


def _some(dice: random.Random, choices: str) -> list[str]:
    picked = [each for each in choices if dice.random() < 0.5]
    dice.shuffle(picked)
    return picked


def _config_map(dice: random.Random) -> Manifest:
    data = {key: dice.choice("12") for key in _some(dice, "abc")}
    labels = {key: dice.choice("12") for key in _some(dice, "xy")}
    return config_map(data=data or None, **({"labels": labels} if labels else {}))


def _widget(dice: random.Random) -> Manifest:
    spec: Manifest = {}
    if parts := _some(dice, "abc"):
        spec["parts"] = [
            {"name": each, **({"size": dice.choice("12")} if dice.random() < 0.7 else {})} for each in parts
        ]
    if tags := _some(dice, "xyz"):
        spec["tags"] = tags
    if options := _some(dice, "mn"):
        spec["options"] = {each: dice.choice("12") for each in options}
    if dice.random() < 0.4:
        spec["notes"] = [dice.choice("12")]
    if dice.random() < 0.4:
        spec["size"] = dice.choice([1, 2])
    return widget(**spec)


def _deployment(dice: random.Random) -> Manifest:
    containers = []
    for name in _some(dice, "abc") or ["a"]:
        more: Manifest = {}
        if env := _some(dice, "PQ"):
            more["env"] = [{"name": each, "value": dice.choice("12")} for each in env]
        if dice.random() < 0.3:
            more["args"] = [dice.choice("12")]
        if dice.random() < 0.4:
            more["ports"] = [{"containerPort": dice.choice([80, 81])}]
        if dice.random() < 0.4:
            more["resources"] = {"limits": {"cpu": dice.choice(["0.5", "500m", "1"])}}
        containers.append(container(name, image=f"example.invalid/image:{dice.choice('12')}", **more))
    pod: Manifest = {"terminationGracePeriodSeconds": 2} if dice.random() < 0.3 else {}
    if dice.random() < 0.3:
        pod["nodeSelector"] = {"k": dice.choice("12")}
    spec = {"revisionHistoryLimit": 2} if dice.random() < 0.3 else {}
    return deployment(containers=containers, pod=pod, **spec)


def _status(dice: random.Random) -> Manifest:
    conditions = [{"type": each, "status": dice.choice(["True", "False"])} for each in _some(dice, "RS")]
    return widget(status={"phase": dice.choice("12"), **({"conditions": conditions} if conditions else {})})


async def _sentence(api: Api, namespace: str, make: Any, dice: random.Random) -> Answer:
    body, manager, verb = make(dice), dice.choice(MANAGERS), dice.random()
    sub = ""
    if body["kind"] == "Widget" and dice.random() < 0.25:
        body, sub = _status(dice), "status"
    force, dry = dice.random() < 0.5, {"dryRun": "All"} if dice.random() < 0.1 else {}
    if verb < 0.75:
        return await api.apply(namespace, body, manager=manager, force=force, sub=sub, **dry)
    if verb < 0.9:
        patch = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
        return await api.merge(body["kind"], namespace, "one", patch, sub=sub, fieldManager=manager, **dry)
    live = await api.get(body["kind"], namespace, "one")
    if live.code == 404:
        return await api.create(namespace, body, fieldManager=manager, **dry)
    changed = {**body, "metadata": {**body["metadata"], "resourceVersion": live.version}}
    answer = await api.put(namespace, changed, sub=sub, fieldManager=manager, **dry)
    while api.real and answer.code == 409:  # the deployment controller came in between
        changed["metadata"]["resourceVersion"] = (await api.get(body["kind"], namespace, "one")).version
        answer = await api.put(namespace, changed, sub=sub, fieldManager=manager, **dry)
    return answer


def _told(answer: Answer) -> Manifest:
    """Keep what must agree."""
    body = answer.body
    if body.get("kind") == "Status":
        causes = body.get("details", {}).get("causes", [])
        return {
            "code": answer.code,
            "causes": sorted((each.get("field", ""), each.get("message", "")) for each in causes),
        }
    # The deployment controller of the real cluster writes too.
    ours = [each for each in body["metadata"].get("managedFields", ()) if each["manager"] in MANAGERS]
    owners = [{key: value for key, value in each.items() if key != "time"} for each in ours]
    return {
        "code": answer.code,
        "owners": sorted(owners, key=lambda each: (each["manager"], each["operation"], each.get("subresource", ""))),
        "generation": body["metadata"].get("generation"),
        "labels": body["metadata"].get("labels"),
        **{part: body.get(part) for part in ("spec", "data") if part in body},
        **({"status": body.get("status")} if body["kind"] == "Widget" else {}),
    }


@pytest.mark.needs_real
@pytest.mark.parametrize("make", [_config_map, _widget, _deployment], ids=["ConfigMap", "Widget", "Deployment"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("METAOPERATOR_STORIES", "10"))))
async def test_both_tell_the_same_story(make: Any, seed: int) -> None:
    """After each of 15 random writes by three managers, code, object, owners and conflicts are the same."""
    namespace = f"contract-story-{make.__name__.strip('_').replace('_', '')}-{seed}"
    async with (
        FakeApiServer() as server,
        aiohttp.ClientSession() as session,
        connect(os.environ["METAOPERATOR_KUBECONFIG"]) as real,
    ):
        fake = Api(session, server.url, real=False)
        for api in (fake, real):
            for kind, status in KINDS:
                await api.apply(None, definition(kind, status=status), force=True)

            async def served(api: Api = api) -> bool:
                return (await api.get("Widget", None)).code == 200

            await eventually(served)
            await api.create(None, manifest("Namespace", namespace))
        try:
            for step in range(15):
                told = []
                for api in (fake, real):
                    dice = random.Random(f"{make.__name__} {seed} {step}")
                    told.append(_told(await _sentence(api, namespace, make, dice)))
                assert told[0] == told[1], f"step {step}: the fake (left) and the real server (right) differ"
        finally:
            await real.call("DELETE", path_of("Namespace", None, namespace))
