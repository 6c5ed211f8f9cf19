"""The packages for distributions, without the tools that build them."""

import pathlib
import tempfile
import unittest

from release import linux


class Trees(unittest.TestCase):
    def test_completions_for_zsh_lie_where_the_zsh_of_distributions_with_rpm_looks(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            files = pathlib.Path(place)
            linux._zsh_of_rpm(files)
            debian = files / "usr/share/zsh/vendor-completions"
            debian.mkdir(parents=True)
            (debian / "_deskgrid").touch()
            linux._zsh_of_rpm(files)
            found = [path.relative_to(files).as_posix() for path in files.rglob("_*")]
            self.assertEqual(found, ["usr/share/zsh/site-functions/_deskgrid"])
