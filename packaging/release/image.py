"""An image for containers: an archive in the layout of the OCI, with the list that `docker load` of any version reads beside it. It has one
layer, the static program with an account of its own, and no shell, no library and no certificates: deskgrid asks nobody for any."""

import hashlib
import io
import json
import pathlib
import tarfile
from datetime import UTC, datetime

from .archives import LICENCES, gzipped
from .build import Workshop

#: The processors, as images name them.
PROCESSORS = {"linux-x86_64": "amd64", "linux-aarch64": "arm64"}
#: The account, which is no account of the machine's, and its directory, in which everything lies that is to outlive the container.
ACCOUNT, STATE = 65532, "var/lib/deskgrid"
PORT = 7411


def write(work: Workshop, name: str, programs: dict[str, pathlib.Path]) -> None:
    """Writes the image of the whole program for a system with Linux; that of the worker alone gets none."""
    if "deskgrid" not in programs:
        return

    files = {
        "etc/group": (f"deskgrid:x:{ACCOUNT}:\n".encode(), 0o644),
        "etc/passwd": (f"deskgrid:x:{ACCOUNT}:{ACCOUNT}::/{STATE}:/sbin/nologin\n".encode(), 0o644),
        "usr/bin/deskgrid": (programs["deskgrid"].read_bytes(), 0o755),
    }
    for licence in LICENCES:
        files[f"usr/share/doc/deskgrid/{licence}"] = ((work.top / licence).read_bytes(), 0o644)
    layer = _tar(files, work.epoch, {STATE: (0o700, ACCOUNT), "tmp": (0o1777, 0)})
    (work.into / f"deskgrid-{work.version}-{name}-oci.tar").write_bytes(archive(layer, PROCESSORS[name], work.version, work.epoch))


def archive(layer: bytes, processor: str, version: str, epoch: int) -> bytes:
    """The archive of an image that consists of this layer."""
    made = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs: dict[str, bytes] = {}

    def put(kind: str, content: bytes) -> dict[str, object]:
        number = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{number}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{number}", "size": len(content)}

    packed = put("layer.v1.tar+gzip", gzipped(layer))
    config = {
        "created": made,
        "architecture": processor,
        "os": "linux",
        "config": {
            "User": f"{ACCOUNT}:{ACCOUNT}",
            "ExposedPorts": {f"{PORT}/udp": {}, f"{PORT}/tcp": {}},
            "Env": ["PATH=/usr/bin", f"HOME=/{STATE}", f"DESKGRID_DIR=/{STATE}"],
            "Entrypoint": ["/usr/bin/deskgrid"],
            "Volumes": {f"/{STATE}": {}},
            "WorkingDir": f"/{STATE}",
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT OR Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": made, "created_by": "deskgrid's ./release"}],
    }
    described = put("config.v1+json", _json(config))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": described, "layers": [packed]}
    listed = put("manifest.v1+json", _json(manifest)) | {
        "platform": {"architecture": processor, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"deskgrid:{version}"},
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed]}
    path = lambda what: "blobs/sha256/" + str(what["digest"]).removeprefix("sha256:")  # noqa: E731
    older = [{"Config": path(described), "RepoTags": [f"deskgrid:{version}"], "Layers": [path(packed)]}]

    head = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), "manifest.json": _json(older)}
    return _tar({name: (content, 0o644) for name, content in (head | blobs).items()}, epoch, {})


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _tar(files: dict[str, tuple[bytes, int]], epoch: int, directories: dict[str, tuple[int, int]]) -> bytes:
    """A tar of files by name, each with its content and mode, all of root's, with every directory above them; and of directories of their own
    mode and owner."""
    parents = {str(parent) for name in [*files, *directories] for parent in pathlib.PurePosixPath(name).parents if str(parent) != "."}
    folders = {name: (0o755, 0) for name in parents} | directories
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted([*files, *folders]):
            entry = tarfile.TarInfo(name)
            entry.mtime = epoch
            if name in folders:
                entry.type = tarfile.DIRTYPE
                entry.mode, entry.uid = folders[name]
                entry.gid = entry.uid
                tar.addfile(entry)
            else:
                content, entry.mode = files[name]
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()
