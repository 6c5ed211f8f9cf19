"""The image for containers is what its own numbers say, and the same bytes each time."""

import gzip
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from release import image
from release.build import Workshop

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = b"\x7fELF" + bytes(range(256)) * 40


def written(place: pathlib.Path, epoch: int = 1_700_000_000) -> pathlib.Path:
    """Makes an image of a program that does nothing."""
    place.mkdir(parents=True)
    (place / "program").write_bytes(PROGRAM)
    work = Workshop.__new__(Workshop)
    work.top, work.into, work.version, work.epoch = TOP, place, "0.1.0", epoch
    image.write(work, "linux-x86_64", {"deskgrid": place / "program"})
    return place / "deskgrid-0.1.0-linux-x86_64-oci.tar"


class Image(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.path = written(self.place / "first")
        with tarfile.open(self.path) as tar:
            self.files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}

    def blob(self, said: dict) -> bytes:
        """What a descriptor names, which must have its size and hash."""
        algorithm, number = said["digest"].split(":")
        content = self.files[f"blobs/{algorithm}/{number}"]
        self.assertEqual(len(content), said["size"])
        self.assertEqual(hashlib.new(algorithm, content).hexdigest(), number)
        return content

    def parts(self) -> tuple[dict, dict, bytes]:
        """The manifest, the configuration and the packed layer, by way of the index."""
        index = json.loads(self.files["index.json"])
        self.assertEqual(json.loads(self.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        self.assertEqual(len(index["manifests"]), 1)
        manifest = json.loads(self.blob(index["manifests"][0]))
        self.assertEqual(len(manifest["layers"]), 1)
        return manifest, json.loads(self.blob(manifest["config"])), self.blob(manifest["layers"][0])

    def test_every_digest_and_size_is_right_and_nothing_lies_beside_what_is_named(self) -> None:
        manifest, config, layer = self.parts()
        number = hashlib.sha256(gzip.decompress(layer)).hexdigest()
        self.assertEqual(config["rootfs"], {"type": "layers", "diff_ids": [f"sha256:{number}"]})
        self.assertEqual(len(config["history"]), 1)
        blobs = [name for name in self.files if name.startswith("blobs/")]
        self.assertEqual(len(blobs), 3)
        older, = json.loads(self.files["manifest.json"])
        path = lambda said: "blobs/" + said["digest"].replace(":", "/")  # noqa: E731
        self.assertEqual((older["Config"], older["Layers"]), (path(manifest["config"]), [path(manifest["layers"][0])]))
        self.assertEqual(older["RepoTags"], ["deskgrid:0.1.0"])

    def test_the_program_runs_as_an_account_that_can_write_to_its_state_alone(self) -> None:
        _, config, layer = self.parts()
        run = config["config"]
        self.assertEqual((run["User"], run["Entrypoint"]), ("65532:65532", ["/usr/bin/deskgrid"]))
        self.assertEqual((config["architecture"], config["os"]), ("amd64", "linux"))
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as tar:
            entries = {entry.name: entry for entry in tar}
            self.assertEqual(tar.extractfile("usr/bin/deskgrid").read(), PROGRAM)
        self.assertEqual(entries["usr/bin/deskgrid"].mode, 0o755)
        writable = [name for name, entry in entries.items() if entry.uid == 65532 or entry.mode & 0o022]
        self.assertEqual(sorted(writable), ["tmp", "var/lib/deskgrid"])
        self.assertEqual({entry.uid for name, entry in entries.items() if name != "var/lib/deskgrid"}, {0})
        for name in entries:
            for parent in pathlib.PurePosixPath(name).parents:
                self.assertTrue(str(parent) == "." or entries[str(parent)].isdir(), f"{parent} comes before {name}")
        self.assertEqual(list(entries), sorted(entries))

    def test_it_is_the_same_bytes_each_time_and_has_the_time_of_the_commit_alone(self) -> None:
        again = written(self.place / "again").read_bytes()
        self.assertEqual(self.path.read_bytes(), again)
        self.assertNotEqual(again, written(self.place / "later", 1_700_000_001).read_bytes())

    def test_a_release_of_the_worker_alone_makes_none(self) -> None:
        work = Workshop.__new__(Workshop)
        image.write(work, "linux-x86_64", {"deskgrid-worker": self.place / "program"})

    @unittest.skipUnless(shutil.which("skopeo"), "there is no skopeo")
    def test_other_programs_read_both_of_its_forms(self) -> None:
        for form in ("oci-archive", "docker-archive"):
            into = self.place / form
            words = ["skopeo", "--insecure-policy", "copy", "--quiet", f"{form}:{self.path}", f"dir:{into}"]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            manifest = json.loads((into / "manifest.json").read_text())
            config = json.loads((into / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
            self.assertEqual(config["config"]["Entrypoint"], ["/usr/bin/deskgrid"])


