"""The package for Windows, made of programs that do nothing, as its tables say what it would do."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from release import windows
from release.build import Workshop

TOP = pathlib.Path(__file__).resolve().parents[2]
MISSING = [tool for tool in ("wixl", "msibuild", "msiinfo") if not shutil.which(tool)]


def package(place: pathlib.Path, epoch: int) -> pathlib.Path:
    """Makes a package of version 0.1.0 at this time."""
    work = Workshop.__new__(Workshop)
    work.top, work.into, work.scratch = TOP, place / f"{epoch}", place / f"{epoch}" / "parts"
    work.version, work.epoch = "0.1.0", epoch
    work.scratch.mkdir(parents=True)
    programs = {}
    for name in ("deskgrid-worker", "deskgrid-watch"):
        programs[name] = work.scratch / f"{name}.exe"
        programs[name].write_bytes(b"MZ" + bytes(1000))
    assert windows.packages(work, "windows-x86_64", programs) == []
    return next(work.into.glob("*.msi"))


@unittest.skipIf(MISSING, f"there is no {', '.join(MISSING)}")
class Msi(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.made = package(pathlib.Path(cls.place.name), 1_700_000_000)

    def rows(self, table: str, made: pathlib.Path | None = None) -> list[list[str]]:
        said = subprocess.run(["msiinfo", "export", str(made or self.made), table], check=True, text=True, stdout=subprocess.PIPE).stdout
        return [line.split("\t") for line in said.replace("\r", "").splitlines()[3:]]

    def actions(self) -> dict[str, tuple[int, str]]:
        return {name: (int(kind), target) for name, kind, _, target, *_ in self.rows("CustomAction")}

    def order(self) -> dict[str, int]:
        return {name: int(at) for name, _, at in self.rows("InstallExecuteSequence")}

    def test_a_service_that_fails_is_started_again_as_that_of_worker_install(self) -> None:
        source = (TOP / "cli/src/commands/scm.rs").read_text()
        pause = int(re.search(r"AGAIN_AFTER: Duration = Duration::from_secs\((\d+)\)", source)[1])
        day = eval(re.search(r"A_DAY: Duration = Duration::from_secs\(([\d_* ]+)\)", source)[1])  # noqa: S307
        actions, order = self.actions(), self.order()
        self.assertEqual(actions["StartAgain"][1], f"sc.exe failure deskgrid reset= {day} actions= restart/{pause * 1000}")
        self.assertEqual(actions["StartAgainFlag"][1], "sc.exe failureflag deskgrid 1")
        for name in ("StartAgain", "StartAgainFlag"):
            self.assertTrue(order["InstallServices"] < order[name] < order["StartServices"])
            self.assertEqual(actions[name][0] & 0xC00, 0xC00, "it needs the installer's elevated part")

    def test_a_package_that_was_built_again_takes_the_place_of_the_first(self) -> None:
        later = package(pathlib.Path(self.place.name), 1_700_000_001)
        product = lambda made: dict(self.rows("Property", made))["ProductCode"]  # noqa: E731
        self.assertNotEqual(product(self.made), product(later))
        found = {row[6]: row for row in self.rows("Upgrade", later)}
        self.assertEqual(found["WIX_UPGRADE_DETECTED"][2], "0.1.0")
        self.assertTrue(int(found["WIX_UPGRADE_DETECTED"][4]) & 0x200, "its own version counts as one to replace")
        self.assertTrue(int(found["WIX_DOWNGRADE_DETECTED"][4]) & 0x2, "a newer one is only noticed")

    def test_a_directory_that_somebody_made_before_is_taken_and_closed_before_the_token_is_written(self) -> None:
        actions, order = self.actions(), self.order()
        steps = ["CreateFolders", "TakeData", "ResetData", "CloseData", "InstallFiles", "TakeRest", "ResetRest", "WriteJoin", "StartServices"]
        self.assertEqual(sorted(steps, key=order.__getitem__), steps)
        for name, words in {"TakeData": "/setowner *S-1-5-32-544", "ResetData": "/reset", "TakeRest": "/setowner *S-1-5-32-544", "ResetRest": "/reset"}.items():
            self.assertIn(words, actions[name][1])
            self.assertFalse(actions[name][0] & windows.IGNORED, "an installation goes on where it fails")
            self.assertEqual("/t" in actions[name][1].split(), name.endswith("Rest"))

    def test_an_upgrade_resets_no_rights_where_the_key_lies(self) -> None:
        conditions = {name: condition for name, condition, _ in self.rows("InstallExecuteSequence")}
        for name in ("ResetData", "ResetRest"):
            self.assertIn("NOT WIX_UPGRADE_DETECTED", conditions[name])
            self.assertIn("NOT Installed", conditions[name])

    def test_what_a_shell_would_interpret_is_refused_before_anything_is_installed(self) -> None:
        rows = {name: (condition, int(at)) for name, condition, at in self.rows("InstallExecuteSequence")}
        for name, given in (("RefuseMaster", "MASTER"), ("RefuseJoin", "JOIN")):
            condition, at = rows[name]
            for character in "&|<>^%!":
                self.assertIn(f'{given} >< "{character}"', condition)
            self.assertIn(f"{given} >< Quote", condition)
            self.assertLessEqual(len(condition), 255, "Windows Installer takes no longer ones")
            self.assertLess(at, min(rows[step][1] for step in ("StopWatchers", "InstallInitialize", "CreateFolders", "WriteJoin")))
            kind, message = self.actions()[name]
            self.assertEqual(kind, windows.REFUSE)
            self.assertNotIn("[", message, "the message would repeat a secret")
        self.assertEqual(dict(self.rows("Property"))["Quote"], '"')

    def test_the_source_of_events_is_registered_as_worker_install_does_it(self) -> None:
        source = (TOP / "cli/src/commands/scm/entries.rs").read_text()
        file = re.search(r'MESSAGES: &str = r"(.*)"', source)[1]
        found = {name: (root, key, value) for _, root, key, name, value, _ in self.rows("Registry")}
        key = r"SYSTEM\CurrentControlSet\Services\EventLog\Application\deskgrid-worker"
        self.assertEqual(found["EventMessageFile"], ("2", key, f"#%{file}"))
        self.assertEqual(found["TypesSupported"], ("2", key, "#7"))
