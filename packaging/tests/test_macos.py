"""The scripts of the package for macOS, with stand-ins for Apple's programs."""

import os
import pathlib
import subprocess
import tempfile
import unittest

MACOS = pathlib.Path(__file__).resolve().parents[1] / "macos"
#: Apple's directory service, as far as the script asks it: it knows some accounts, and writes down what it is told.
DSCL = """#!/bin/sh
case "$2" in
    -read) exit ${KNOWN:-1} ;;
    -list) cat "$PLACE/$(basename "$3")" ;;
    *) echo "$*" >>"$PLACE/told" ;;
esac
"""


class Account(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        (self.place / "dscl").write_text(DSCL)
        (self.place / "dscl").chmod(0o755)

    def make(self, users: str, groups: str, known: str = "1") -> tuple[int, list[str]]:
        """Runs the script; returns its exit code and what the directory service was told."""
        (self.place / "Users").write_text(users)
        (self.place / "Groups").write_text(groups)
        env = {"PATH": f"{self.place}:{os.environ['PATH']}", "PLACE": str(self.place), "KNOWN": known}
        done = subprocess.run(["sh", str(MACOS / "account.sh")], env=env, stderr=subprocess.DEVNULL)
        told = self.place / "told"
        return done.returncode, told.read_text().splitlines() if told.exists() else []

    def test_the_account_gets_a_number_that_no_user_and_no_group_has(self) -> None:
        code, told = self.make("root 0\n_one   300\n_three 302\n", "wheel 0\n_two 301\n_negative -2\n")
        self.assertEqual(code, 0)
        self.assertIn(". -create /Users/_deskgrid UniqueID 303", told)
        self.assertIn(". -create /Groups/_deskgrid PrimaryGroupID 303", told)
        self.assertIn(". -create /Users/_deskgrid UserShell /usr/bin/false", told)

    def test_an_account_that_is_there_is_left_alone(self) -> None:
        self.assertEqual(self.make("", "", known="0"), (0, []))

    def test_where_no_number_is_free_nothing_is_made(self) -> None:
        users = "".join(f"_u{number} {number}\n" for number in range(300, 400))
        self.assertEqual(self.make(users, ""), (1, []))


class Scripts(unittest.TestCase):
    def test_every_script_is_one_of_a_plain_shell(self) -> None:
        for script in ("account.sh", "pkg", "preinstall", "postinstall"):
            subprocess.run(["sh", "-n", str(MACOS / script)], check=True)
