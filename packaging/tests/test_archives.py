"""What people read in an archive is without the comments that are only for the tests."""

import pathlib
import tempfile
import unittest
import zipfile

from release import archives
from release.build import Workshop

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


class Archive(unittest.TestCase):
    def test_the_readme_has_no_comments_for_the_tests(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        program = pathlib.Path(place.name) / "deskgrid.exe"
        program.write_bytes(b"a program")
        work = Workshop(TOP, pathlib.Path(place.name) / "into")
        archives.write(work, "windows-x86_64", {"deskgrid": program})
        (made,) = work.into.glob("*.zip")
        with zipfile.ZipFile(made) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/README.md")]
            text = archive.read(name).decode()
        self.assertIn("# ", text)
        for hidden in ("<!--", "-->", "```sh run"):
            self.assertNotIn(hidden, text)
