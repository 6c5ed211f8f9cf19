"""The scripts of packages and installers, with a `systemctl` that writes down what it is asked."""

import io
import os
import pathlib
import stat
import subprocess
import tarfile
import tempfile
import tomllib
import unittest

PACKAGING = pathlib.Path(__file__).resolve().parents[1]
#: Writes its words down; says that the service is enabled, or what else it is, as the test wants.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$PLACE/asked"
case " $* " in *" is-enabled "*)
    [ ! -e "$PLACE/enabled" ] || { [ "$2" = --quiet ] || echo enabled; exit 0; }
    cat "$PLACE/state" 2>/dev/null
    exit 1
esac
"""
#: Writes its name and its words down, and fails where the test wants so.
TOOL = """#!/bin/sh
echo "${0##*/} $*" >>"$PLACE/asked"
[ ! -e "$PLACE/broken-${0##*/}" ]
"""
#: Answers as debconf would.
CONFMODULE = """
db_get() { RET=$(cat "$PLACE/answers/${1##*/}"); }
db_reset() { :; }
db_stop() { :; }
db_purge() { :; }
"""
#: The head of the units of `deskgrid worker install`, as its source has it.
HEAD = (PACKAGING.parent / "cli/src/service.rs").read_text().split('const HEAD: &str =\n    "')[1].split('\\n')[0]


class Script(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        for directory in ("bin", "etc/deskgrid", "run/systemd/system", "answers"):
            (self.root / directory).mkdir(parents=True)
        for name in ("systemctl", "systemd-sysusers", "deb-systemd-helper", "deb-systemd-invoke"):
            self.tool(name, SYSTEMCTL)
        (self.root / "confmodule").write_text(CONFMODULE)

    def run_it(self, script: str, *words: str) -> list[str]:
        """Runs a script with these words, below a root directory of the test's; returns what `systemctl` was asked."""
        for path in ("/etc/deskgrid", "/etc/systemd", "/var/lib/deskgrid", "/run/systemd/system"):
            script = script.replace(path, f"{self.root}{path}")
        script = script.replace("/usr/share/debconf/confmodule", str(self.root / "confmodule"))
        done = subprocess.run(["sh", "-c", script, "script", *words], check=True, env=self.env(), stderr=subprocess.PIPE, text=True)
        self.told = done.stderr
        return self.asked()

    def env(self) -> dict[str, str]:
        return {**os.environ, "PLACE": str(self.root), "TMPDIR": str(self.root), "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}

    def asked(self) -> list[str]:
        asked = self.root / "asked"
        return asked.read_text().splitlines() if asked.exists() else []

    def installed_before(self) -> pathlib.Path:
        """A unit of `deskgrid worker install`, with an identity; returns the latter's directory."""
        unit = self.root / "etc/systemd/system/deskgrid-worker.service"
        unit.parent.mkdir(parents=True)
        unit.write_text(f"{HEAD}\n[Service]\n")
        state = self.root / "var/lib/deskgrid/worker"
        state.mkdir(parents=True)
        for name in ("userdel", "getent"):
            self.tool(name, TOOL)
        return state

    def tool(self, name: str, text: str) -> None:
        tool = self.root / "bin" / name
        tool.write_text(text)
        tool.chmod(0o755)


class Rpm(Script):
    def post(self, count: int) -> list[str]:
        text = (PACKAGING / "rpm" / "deskgrid-worker.scripts").read_text()
        return self.run_it(text.split("%post\n")[1].split("%preun\n")[0], str(count))

    def test_an_upgrade_starts_a_worker_that_rests(self) -> None:
        (self.root / "enabled").touch()
        asked = self.post(2)
        self.assertIn("restart deskgrid-worker.service", asked)

    def test_an_upgrade_leaves_a_worker_alone_that_somebody_has_disabled(self) -> None:
        asked = self.post(2)
        self.assertNotIn("restart deskgrid-worker.service", asked)
        self.assertIn("try-restart deskgrid-worker.service", asked)

    def test_an_installation_enables_the_worker_and_starts_it(self) -> None:
        asked = self.post(1)
        self.assertLess(asked.index("enable deskgrid-worker.service"), asked.index("start deskgrid-worker.service"))

    def test_without_a_systemd_as_in_an_image_the_worker_is_enabled_and_disabled_alone(self) -> None:
        (self.root / "run/systemd/system").rmdir()
        self.assertEqual(self.post(1)[1:], ["enable deskgrid-worker.service"])
        (self.root / "asked").unlink()
        self.assertEqual(self.post(2)[1:], [], "an upgrade leaves that as it is")
        (self.root / "asked").unlink()
        text = (PACKAGING / "rpm" / "deskgrid-worker.scripts").read_text()
        self.assertEqual(self.run_it(text.split("%preun\n")[1].split("%postun\n")[0], "0"), ["disable deskgrid-worker.service"])


    def test_a_service_of_an_earlier_installation_by_hand_is_named_and_keeps_account_identity_and_settings(self) -> None:
        state = self.installed_before()
        self.post(1)
        self.assertIn("worker uninstall --yes", self.told)
        (self.root / "asked").unlink()
        text = (PACKAGING / "rpm" / "deskgrid-worker.scripts").read_text()
        before, after = text.split("%preun\n")[1].split("%postun\n")
        settings = self.root / "etc/deskgrid/worker.toml"
        settings.write_text("slots = 2\n")
        self.assertEqual(self.run_it(before, "0"), [])
        settings.rename(settings.with_suffix(".toml.rpmsave"))
        self.assertEqual(self.run_it(after, "0"), [])
        self.assertTrue(state.exists())
        self.assertEqual(settings.read_text(), "slots = 2\n")

    def test_an_erased_package_takes_account_and_identity_along(self) -> None:
        state = self.installed_before()
        (self.root / "etc/systemd/system/deskgrid-worker.service").unlink()
        text = (PACKAGING / "rpm" / "deskgrid-worker.scripts").read_text()
        self.assertIn("userdel deskgrid", self.run_it(text.split("%postun\n")[1], "0"))
        self.assertFalse(state.exists())


class Debian(Script):
    def joined_by(self, master: str, token: str) -> dict[str, str]:
        """Configures the package with these answers; returns what the file to join by says."""
        (self.root / "answers" / "master").write_text(master)
        (self.root / "answers" / "join").write_text(token)
        self.run_it((PACKAGING / "debian" / "deskgrid-worker.postinst").read_text(), "configure")
        file = self.root / "etc/deskgrid/join.toml"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        return tomllib.loads(file.read_text())

    def test_settings_of_a_site_are_brought_to_a_pc_whose_settings_were_removed(self) -> None:
        for name in ("master", "join"):
            (self.root / "answers" / name).touch()
        script = (PACKAGING / "debian" / "deskgrid-worker.postinst").read_text()
        place = self.root / "etc/deskgrid"
        for settings in ("slots = 1\n", "slots = 2\n"):
            (place / "site.toml").write_text(settings)
            self.run_it(script, "configure")
            self.assertEqual((place / "worker.toml").read_text(), settings)
        self.assertFalse((place / "worker.toml.before").exists())

    def test_what_an_owner_had_written_outlives_several_installers_of_a_site(self) -> None:
        for name in ("master", "join"):
            (self.root / "answers" / name).touch()
        debian = (PACKAGING / "debian" / "deskgrid-worker.postinst").read_text()
        rpm = (PACKAGING / "rpm" / "deskgrid-worker.scripts").read_text().split("%post\n")[1].split("%preun\n")[0]
        place = self.root / "etc/deskgrid"
        for script, word in ((debian, "configure"), (rpm, "2")):
            (place / "worker.toml").write_text("# The settings, as the package has them: none.\n")
            for settings in ("slots = 1\n", "slots = 2\n", "slots = 3\n", "slots = 3\n"):
                (place / "site.toml").write_text(settings)
                self.run_it(script, word)
                self.assertEqual((place / "worker.toml").read_text(), settings)
                if settings == "slots = 1\n":
                    self.assertFalse((place / "worker.toml.before").exists(), "nobody had written any")
                    (place / "worker.toml").write_text("updates = false\n")
            self.assertEqual((place / "worker.toml.before").read_text(), "updates = false\n")
            for name in ("worker.toml.before", "worker.toml.site"):
                (place / name).unlink()

    def test_the_answers_are_what_the_file_to_join_by_says(self) -> None:
        self.assertEqual(self.joined_by("grid.example.org:7411", "dg1.1.ab"), {"master": "grid.example.org:7411", "token": "dg1.1.ab"})

    def test_quotes_and_backslashes_in_answers_stay_in_their_strings(self) -> None:
        master, token = 'a"\\ b', 'dg1."\nname = "mine\\'
        self.assertEqual(self.joined_by(master, token), {"master": master, "token": token.replace("\n", "")})


    def test_a_service_of_an_earlier_installation_by_hand_is_named_and_keeps_account_identity_and_settings(self) -> None:
        for name in ("master", "join"):
            (self.root / "answers" / name).touch()
        state = self.installed_before()
        scripts = {name: (PACKAGING / "debian" / f"deskgrid-worker.{name}").read_text() for name in ("postinst", "prerm", "postrm")}
        self.run_it(scripts["postinst"], "configure")
        self.assertIn("worker uninstall --yes", self.told)
        (self.root / "asked").unlink()
        settings = self.root / "etc/deskgrid/worker.toml"
        settings.write_text("slots = 2\n")
        self.assertEqual(self.run_it(scripts["prerm"], "remove"), [])
        # A conffile, which dpkg takes away before the last script.
        settings.unlink()
        self.assertEqual(self.run_it(scripts["postrm"], "purge"), [])
        self.assertTrue(state.exists())
        self.assertEqual([path.name for path in settings.parent.iterdir()], ["worker.toml"])
        self.assertEqual(settings.read_text(), "slots = 2\n")

        (self.root / "etc/systemd/system/deskgrid-worker.service").unlink()
        self.assertIn("userdel deskgrid", self.run_it(scripts["postrm"], "purge"))
        self.assertFalse(state.exists())


class SiteScript(Script):
    """The installer that `deskgrid package --format sh` makes, for an image or for this PC, both below the test's own root."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("systemd-sysusers", "userdel"):
            self.tool(name, TOOL)
        self.tool("id", "#!/bin/sh\necho 0\n")
        for name in ("dpkg", "rpm"):
            self.tool(name, "#!/bin/sh\nexit 1\n")
        self.image = self.root / "image"
        (self.image / "usr").mkdir(parents=True)

    def installer(self, program: str, settings: str) -> pathlib.Path:
        """Writes the installer of a worker with this program and these settings."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:xz") as tar:
            for name, text in (("deskgrid-worker", program), ("lib/systemd/system/deskgrid-worker.service", "[Service]\n"), ("share/man/page", "page\n")):
                entry = tarfile.TarInfo(f"top/{name}")
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
        script = (PACKAGING.parent / "cli/src/package/installer.sh").read_text()
        values = {"VERSION": "1.0", "ARCH": os.uname().machine, "JOIN": 'token = "dg1.1.ab"', "SETTINGS": settings, "LINES": str(script.count("\n"))}
        for name, value in values.items():
            script = script.replace(f"@{name}@", value)
        # Without `--root` it works below the test's root all the same.
        script = script.replace('"$ROOT"/', '$ROOT/').replace("$ROOT/", f"${{ROOT:-{self.root}}}/").replace("/run/systemd", f"{self.root}/run/systemd")
        path = self.root / "site.sh"
        path.write_bytes(script.encode() + archive.getvalue())
        return path

    def install(self, *words: str, code: int = 0, program: str = "program", settings: str = "") -> str:
        """Runs the installer; returns what it said."""
        (self.root / "asked").unlink(missing_ok=True)
        ran = subprocess.run(["sh", str(self.installer(program, settings)), *words], env=self.env(), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, code, ran)
        return ran.stdout + ran.stderr

    def test_an_image_has_the_account_of_the_service_before_its_first_start(self) -> None:
        self.install("--root", str(self.image))
        self.assertIn(f"systemd-sysusers --root={self.image} deskgrid-worker.conf", self.asked())
        self.assertIn(f"--root {self.image} enable deskgrid-worker.service", self.asked())

    def test_an_image_without_an_account_makes_its_first_start_look_for_one(self) -> None:
        (self.root / "broken-systemd-sysusers").touch()
        os.utime(self.image / "usr", (1, 1))
        self.install("--root", str(self.image))
        self.assertGreater((self.image / "usr").stat().st_mtime, 1)

    def test_a_worker_removed_from_an_image_takes_its_account_along(self) -> None:
        self.install("--root", str(self.image))
        (self.image / "etc/passwd").write_text("root:x:0:0\ndeskgrid:x:998:998\n")
        self.install("--root", str(self.image), "--uninstall")
        self.assertEqual(self.asked(), [f"userdel --prefix {self.image} deskgrid"])


    def test_an_upgrade_by_script_restarts_the_worker_and_the_same_again_lets_it_go_on(self) -> None:
        self.assertIn("is installed", self.install())
        self.assertIn("enable deskgrid-worker.service", self.asked())
        (self.root / "enabled").touch()
        self.assertIn("over the one before", self.install(program="newer"))
        self.assertEqual(self.asked()[-2:], ["enable deskgrid-worker.service", "restart deskgrid-worker.service"])
        identity = self.root / "var/lib/deskgrid/worker/identity"
        identity.mkdir(parents=True)
        (identity / "link.toml").touch()
        self.assertIn("nothing was changed", self.install(program="newer"))
        self.assertEqual(self.asked()[-1], "start deskgrid-worker.service")

    def test_a_worker_that_somebody_has_disabled_stays_so_at_an_upgrade_by_script(self) -> None:
        for state, words in (("disabled", ()), ("masked", ()), ("masked-runtime", ()), ("disabled", ("--root", str(self.image)))):
            with self.subTest(state=state, words=words):
                (self.root / "state").unlink(missing_ok=True)
                self.install(*words)
                (self.root / "state").write_text(f"{state}\n")
                self.assertIn("somebody has disabled its service", self.install(*words, program=f"newer {state}"))
                turned_on = [line for line in self.asked() if {"enable", "start", "restart"} & set(line.split())]
                self.assertEqual(turned_on, [], self.asked())

    def test_what_an_owner_had_written_outlives_several_scripts_of_a_site(self) -> None:
        place = self.image / "etc/deskgrid"
        place.mkdir(parents=True)
        (place / "worker.toml").write_text("updates = false\n")
        self.assertIn("worker.toml.before now", self.install("--root", str(self.image), settings="slots = 1"))
        for settings in ("slots = 2", "slots = 3"):
            self.assertNotIn("were others", self.install("--root", str(self.image), settings=settings))
        self.assertEqual((place / "worker.toml").read_text(), "slots = 3\n")
        self.assertEqual((place / "worker.toml.before").read_text(), "updates = false\n")

    def test_a_pc_with_a_service_that_was_installed_by_hand_is_left_as_it_is(self) -> None:
        self.installed_before()
        told = self.install(code=1)
        self.assertIn("worker uninstall --yes", told)
        for lost in ("keep a copy of", "its settings, its identity"):
            self.assertIn(lost, told)
        self.assertEqual(self.asked(), [])
        self.assertFalse((self.root / "usr").exists())

    def test_the_advice_on_an_image_with_a_service_that_was_installed_by_hand_is_for_the_image(self) -> None:
        unit = self.image / "etc/systemd/system/deskgrid-worker.service"
        unit.parent.mkdir(parents=True)
        unit.write_text(f"{HEAD}\n[Service]\n")
        told = self.install("--root", str(self.image), code=1)
        self.assertIn(f"{self.image}/usr/local/lib/deskgrid/deskgrid worker uninstall --root '{self.image}' --yes", told)
        self.assertEqual(self.asked(), [])

    def test_a_service_that_was_disabled_by_the_distribution_is_enabled_by_the_first_installation(self) -> None:
        (self.root / "state").write_text("disabled\n")
        self.install()
        self.assertIn("enable deskgrid-worker.service", self.asked())

    def test_a_first_installation_that_was_interrupted_is_made_up_for_by_the_next_run(self) -> None:
        for words in ((), ("--root", str(self.image))):
            with self.subTest(words=words):
                self.tool("systemd-sysusers", '#!/bin/sh\nkill -9 "$PPID"\n')
                self.install(*words, code=-9)
                self.assertNotIn("enable", " ".join(self.asked()).split())
                (self.root / "state").write_text("disabled\n")
                self.tool("systemd-sysusers", TOOL)
                self.assertNotIn("disabled", self.install(*words))
                self.assertIn("enable", " ".join(self.asked()).split())

                self.assertIn("somebody has disabled its service", self.install(*words), "the installation is complete now")
                (self.root / "state").unlink()

    def test_an_upgrade_that_was_interrupted_restarts_the_worker_at_the_next_run(self) -> None:
        self.install()
        identity = self.root / "var/lib/deskgrid/worker/identity"
        identity.mkdir(parents=True)
        (identity / "link.toml").touch()
        (self.root / "broken-systemd-sysusers").touch()
        self.install(code=1, program="newer")
        (self.root / "broken-systemd-sysusers").unlink()
        self.install(program="newer")
        self.assertEqual(self.asked()[-1], "restart deskgrid-worker.service")
        self.assertFalse((self.root / "etc/deskgrid/worker.unfinished").exists())


class Units(unittest.TestCase):
    def test_the_unit_of_the_master_finds_the_program_of_a_package_and_one_that_was_copied(self) -> None:
        (command,) = [line for line in self.master().splitlines() if line.startswith("ExecStart=")]
        # systemd looks for it in /usr/local/bin, /usr/bin and the like.
        self.assertEqual(command.split()[0], "ExecStart=deskgrid")

    def test_the_unit_of_the_master_does_not_try_wrong_settings_again_and_says_how_it_takes_some(self) -> None:
        lines = self.master().splitlines()
        self.assertIn("RestartPreventExitStatus=2", lines)
        self.assertIn("ProtectSystem=strict", lines)
        # With the comments of settings as lines the own command comes last, after one that takes the first away.
        starts = [line.removeprefix("#") for line in lines if line.removeprefix("#").startswith("ExecStart=")]
        self.assertEqual(starts, [starts[0], "ExecStart=", f"{starts[0]} --config /etc/deskgrid/master.toml"])
        self.assertTrue(any(line.startswith("#ReadWritePaths=/") for line in lines))

    def test_what_the_settings_of_a_master_name_as_an_example_lies_where_its_unit_lets_it_write(self) -> None:
        settings = (PACKAGING.parent / "configs/master.toml").read_text()
        self.assertIn('# record = "/var/lib/deskgrid-master/', settings)
        self.assertIn("StateDirectory=deskgrid-master\n", self.master())

    def master(self) -> str:
        return (PACKAGING.parent / "configs/deskgrid-master.service").read_text()


class Ansible(unittest.TestCase):
    def test_a_worker_that_is_removed_takes_nothing_of_a_master_along(self) -> None:
        tasks = (PACKAGING.parent / "configs/ansible/roles/deskgrid_worker/tasks/absent.yml").read_text()
        removed = [line.strip().removeprefix("- ") for line in tasks.splitlines() if line.strip().startswith("- /")]
        self.assertIn("/etc/deskgrid/join.toml", removed)
        for path in removed:
            self.assertRegex(path, "/((worker|join|site)[^/]*|deskgrid-worker)$")
