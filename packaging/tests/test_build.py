"""The directory that is shipped has one version, and programs in it are static and small."""

import hashlib
import os
import pathlib
import struct
import tempfile
import unittest

from release import build
from release.build import Workshop, check_size, is_static, remove_older, version_of


def elf(*kinds: int) -> bytes:
    """A program of Linux with headers of these kinds."""
    head = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, len(kinds)) + bytes(6)
    return head + b"".join(struct.pack("<I", kind) + bytes(52) for kind in kinds)


class Directory(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.into = pathlib.Path(place.name)

    def put(self, *names: str) -> None:
        for name in names:
            (self.into / name).write_text(name)

    def names(self) -> list[str]:
        return sorted(file.name for file in self.into.iterdir())

    def test_the_version_is_read_from_every_name_that_is_written(self) -> None:
        for version in ("0.1.0", "0.2.0-rc.1"):
            for name in (
                f"deskgrid-worker_{version}_amd64.deb", f"deskgrid_{version}_arm64.deb", f"deskgrid-worker-{version}-1.x86_64.rpm",
                f"deskgrid-worker-{version}-linux-x86_64.tar.xz", f"deskgrid-{version}-windows-x86_64.zip",
                f"deskgrid-worker-{version}-windows-x86_64.msi", f"deskgrid-{version}-py3-none-win_amd64.whl", f"deskgrid-{version}.tar.gz",
                f"deskgrid-{version}-linux-aarch64-oci.tar", f"deskgrid-worker-{version}-macos-aarch64.tar.xz",
            ):
                self.assertEqual(version_of(name), version, name)
        for name in ("deskgrid-worker-site.deb", "office.deb", "notes.txt", "SHA256SUMS"):
            self.assertIsNone(version_of(name), name)

    def test_packages_of_an_older_version_go_and_other_files_stay(self) -> None:
        self.put("deskgrid-worker_0.1.0_amd64.deb", "deskgrid-0.1.0.tar.gz", "deskgrid-worker_0.2.0_amd64.deb", "office.deb", "sbom.cdx.json")
        remove_older(self.into, "0.2.0")
        self.assertEqual(self.names(), ["deskgrid-worker_0.2.0_amd64.deb", "office.deb", "sbom.cdx.json"])

    def test_sums_are_of_what_is_shipped_alone(self) -> None:
        self.put("deskgrid-worker_0.2.0_amd64.deb", "deskgrid-worker-site.deb", "sbom.cdx.json")
        work = Workshop.__new__(Workshop)
        work.into, work.version = self.into, "0.2.0"
        work.sums()
        lines = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}" for name in ("deskgrid-worker_0.2.0_amd64.deb", "sbom.cdx.json")]
        self.assertEqual((self.into / "SHA256SUMS").read_text().splitlines(), lines)


class Programs(unittest.TestCase):
    def test_a_program_that_asks_for_a_loader_is_not_static(self) -> None:
        self.assertTrue(is_static(elf(1, 1, 2, 0x6474E551)))
        self.assertFalse(is_static(elf(6, 3, 1)))

    def test_a_program_of_this_system_that_has_a_loader_is_noticed(self) -> None:
        content = pathlib.Path("/proc/self/exe").resolve().read_bytes() if os.path.exists("/proc/self/exe") else b""
        if b"/ld-" not in content[:8192]:
            self.skipTest("this Python has no loader")
        self.assertFalse(is_static(content))

    def test_what_is_no_program_of_linux_is_refused(self) -> None:
        with self.assertRaisesRegex(build.Failed, "no ELF"):
            is_static(b"MZ" + bytes(100))

    def test_a_worker_that_is_too_large_is_refused_with_both_sizes(self) -> None:
        built = pathlib.Path("deskgrid-worker")
        check_size(built, bytes(build.LARGEST))
        with self.assertRaisesRegex(build.Failed, r"12\.5 MB, more than 12 MB"):
            check_size(built, bytes(12_500_000))
        with self.assertRaisesRegex(build.Failed, r"MB packed, more than 5 MB"):
            check_size(built, os.urandom(6_000_000))
