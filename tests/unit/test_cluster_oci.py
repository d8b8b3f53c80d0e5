"""The same files give the same image, wherever and whenever it is built."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.cluster import oci


def tree(root: Path, *, order: list[str], mtime: int) -> Path:
    """Write a small package into `root`, its files made in the given order at the given time."""
    root.mkdir()
    for name in order:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (mtime, mtime))
    (root / "link").symlink_to("b.py")
    return root


@pytest.fixture
def layers(tmp_path: Path) -> list[oci.Layer]:
    """One layer built twice: other folder, other order, other times."""
    one = tree(tmp_path / "one", order=["a/a.py", "b.py", "z.py"], mtime=1_000_000_000)
    two = tree(tmp_path / "two", order=["z.py", "b.py", "a/a.py"], mtime=1_500_000_000)
    return [
        oci.layer_of_tree(one, tmp_path / "one.tar.gz", prefix="opt/lib"),
        oci.layer_of_tree(two, tmp_path / "two.tar.gz", prefix="opt/lib"),
    ]


def test_a_layer_depends_on_names_and_content_only(layers: list[oci.Layer]) -> None:
    """Who built it, where, when and in which order changes no byte."""
    one, two = layers
    assert (one.digest, one.diff_id) == (two.digest, two.diff_id)
    assert one.path.read_bytes() == two.path.read_bytes()


def test_a_layer_holds_its_prefix_and_nobody_of_this_machine(layers: list[oci.Layer]) -> None:
    """Everything lies under the prefix, and belongs to root by number alone."""
    with tarfile.open(layers[0].path) as tar:
        members = tar.getmembers()
    assert [m.name for m in members] == [
        "opt", "opt/lib", "opt/lib/a", "opt/lib/a/a.py", "opt/lib/b.py", "opt/lib/link", "opt/lib/z.py",
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}


def test_an_archive_is_the_same_each_time_and_keeps_its_name(layers: list[oci.Layer], tmp_path: Path) -> None:
    """Two builds give one digest, and the reference is found in the archive."""
    digests = [
        oci.oci_archive(tmp_path / f"{n}.tar", reference="example/operator:1", layers=[layer], config={"User": "1"})
        for n, layer in enumerate(layers)
    ]
    assert digests[0] == digests[1]
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert oci.names(tmp_path / "0.tar") == ["example/operator:1"]


def test_every_blob_of_an_archive_lies_under_its_own_digest(layers: list[oci.Layer], tmp_path: Path) -> None:
    """What an OCI reader checks before it believes a blob."""
    path = tmp_path / "image.tar"
    digest = oci.oci_archive(path, reference="example/operator:1", layers=layers[:1], config={})
    with tarfile.open(path) as tar:
        manifest = json.loads(oci._member(tar, "blobs/" + digest.replace(":", "/")))
        blobs = [manifest["config"], *manifest["layers"]]
        for blob in blobs:
            data = oci._member(tar, "blobs/" + blob["digest"].replace(":", "/"))
            assert oci._sha256(data) == blob["digest"]
            assert len(data) == blob["size"]


def test_a_docker_archive_keeps_its_name(tmp_path: Path) -> None:
    """The name that was asked for is the one that containerd will import."""
    layer = oci.tar_of(
        [oci.Entry(name="bin"), oci.Entry(name="bin/sh", data=b"#!"), oci.Entry(name="sh", link="bin/sh")]
    )
    oci.docker_archive(tmp_path / "image.tar", reference="example/tool:1", layer=layer, config={})
    assert oci.names(tmp_path / "image.tar") == ["example/tool:1"]


def test_files_laid_over_an_image_are_one_layer_more_and_all_else_stays(
    layers: list[oci.Layer], tmp_path: Path
) -> None:
    """The image that is laid over keeps its configuration and its layers; only the name is another."""
    config: dict[str, object] = {"User": "65534:65534", "Entrypoint": ["python3"]}
    oci.oci_archive(tmp_path / "one.tar", reference="example:1", layers=layers[:1], config=config)
    changed = [oci.Entry(name="b.py", data=b"other", mode=0o644)]
    oci.with_files(tmp_path / "one.tar", tmp_path / "other.tar", reference="example:other", entries=changed)
    assert oci.names(tmp_path / "other.tar") == ["example:other"]
    with tarfile.open(tmp_path / "other.tar") as tar:

        def blob(digest: str) -> bytes:
            found = tar.extractfile("blobs/" + digest.replace(":", "/"))
            assert found is not None
            return found.read()

        index = tar.extractfile("index.json")
        assert index is not None
        image = json.loads(blob(json.loads(index.read())["manifests"][0]["digest"]))
        content = json.loads(blob(image["config"]["digest"]))
        below, over = (each["digest"] for each in image["layers"])
        with tarfile.open(fileobj=io.BytesIO(blob(over))) as layer:
            laid = layer.extractfile("b.py")
            assert laid is not None
            assert (layer.getnames(), laid.read()) == (["b.py"], b"other")
    assert below == layers[0].digest
    assert content["config"] == config
    assert content["rootfs"]["diff_ids"][0] == layers[0].diff_id
