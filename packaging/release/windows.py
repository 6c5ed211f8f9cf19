"""The package for Windows: made by wixl, with what wixl cannot say added by SQL (msibuild, of the same msitools)."""

import os
import pathlib
import re
import shutil
import time
import uuid

from .build import Workshop

#: An action that is a command in a directory, carried out by the installer's elevated part: what Windows Installer calls type 34.
COMMAND = 34 + 0x400 + 0x800
IGNORED, HIDDEN, ROLLBACK = 0x40, 0x2000, 0x100
#: An action that ends the installation with a message.
REFUSE = 19
CLOSE = 'icacls.exe "[DATA]." /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F *S-1-5-19:(OI)(CI)F'
#: Somebody else may have made the directory before, and would keep it as its owner, and by rights of their own that `CLOSE` leaves alone.
TAKE, RESET = "/setowner *S-1-5-32-544 /q", "/reset /q"
TAKE_DATA, RESET_DATA = (f'icacls.exe "[DATA]." {words}' for words in (TAKE, RESET))
#: What lies in it, once nobody else gets in. Of a link (/l) the link is meant, not what it leads to.
TAKE_REST, RESET_REST = (f'icacls.exe "[DATA]*" {words} /t /l' for words in (TAKE, RESET))
#: Not in an upgrade: there the reset would let everybody read the key for a moment, in a directory that was closed before.
FRESH = "NOT REMOVE AND NOT Installed AND NOT WIX_UPGRADE_DETECTED"
#: A service that failed is started again after a minute, for as often as it fails, as `deskgrid worker install` has it.
AGAIN = "sc.exe failure deskgrid reset= 86400 actions= restart/60000"
AGAIN_FLAG = "sc.exe failureflag deskgrid 1"
JOIN = 'cmd.exe /c echo master = "[MASTER]">join.toml& echo token = "[JOIN]">>join.toml'
#: Characters that cmd.exe takes for more than themselves, or that end the quotes in `JOIN`: a package that is given one installs nothing.
COMMANDING = "&|<>^%!"
NO_SHELL = {given: f'{given} >< Quote OR ' + " OR ".join(f'{given} >< "{c}"' for c in COMMANDING) for given in ("MASTER", "JOIN")}
REFUSAL = f"{{}} has a character that no {{}} has: a double quote or one of {' '.join(COMMANDING)}. Nothing was installed. Copy it whole, in double quotes."
REMOVE = "cmd.exe /c rmdir /s /q deskgrid"
#: The watchers end before the installer looks which files are in use: for the sake of one it would ask for a restart of the PC.
STOP_WATCHERS = "taskkill.exe /f /im deskgrid-watch.exe"
#: And users who are logged on get one at once, not only when they log on the next time.
START_WATCHERS = '"[PROGRAMS]deskgrid-watch.exe" --start-in-sessions'
#: Each action: its name, type, directory, command, condition, and place in the order. Files in use are looked for
#: at 1400, folders made at 3700, files at 4000, services at 5800, and started at 5900.
ACTIONS = [
    ("RefuseMaster", REFUSE, "", REFUSAL.format("MASTER", "address"), NO_SHELL["MASTER"], 110),
    ("RefuseJoin", REFUSE, "", REFUSAL.format("JOIN", "join token"), NO_SHELL["JOIN"], 111),
    ("StopWatchers", 34 | IGNORED, "DATA", STOP_WATCHERS, 'Installed OR WIX_UPGRADE_DETECTED', 1390),
    ("StartWatchers", COMMAND | IGNORED, "DATA", START_WATCHERS, 'NOT REMOVE', 5950),
    # Windows lets everybody read below ProgramData: the directory is closed before anything secret is in it. Where that fails, so does the installation.
    ("TakeData", COMMAND, "DATA", TAKE_DATA, 'NOT REMOVE', 3704),
    ("ResetData", COMMAND, "DATA", RESET_DATA, FRESH, 3705),
    ("CloseData", COMMAND, "DATA", CLOSE, 'NOT REMOVE', 3710),
    # By then `worker.toml` is there: a pattern that matches nothing would be an error.
    ("TakeRest", COMMAND, "DATA", TAKE_REST, FRESH, 4004),
    ("ResetRest", COMMAND, "DATA", RESET_REST, FRESH, 4005),
    ("ForgetJoin", COMMAND | ROLLBACK | IGNORED, "DATA", "cmd.exe /c del /q join.toml", 'MASTER AND JOIN AND NOT REMOVE', 4009),
    ("WriteJoin", COMMAND | HIDDEN, "DATA", JOIN, 'MASTER AND JOIN AND NOT REMOVE', 4010),
    # A convenience: their failure does not fail the installation.
    ("StartAgain", COMMAND | IGNORED, "DATA", AGAIN, 'NOT REMOVE', 5810),
    ("StartAgainFlag", COMMAND | IGNORED, "DATA", AGAIN_FLAG, 'NOT REMOVE', 5820),
    ("RemoveData", COMMAND | IGNORED, "CommonAppDataFolder", REMOVE, 'REMOVE="ALL" AND NOT UPGRADINGPRODUCTCODE', 3490),
]
#: The file with the messages of events, as a value of the registry in which a variable counts: wixl writes it as plain text.
MESSAGES = r"#%%SystemRoot%\System32\EventCreate.exe"
#: The number that packages of all versions share (`UpgradeCode`).
FAMILY = "{6F1F3A0E-5A3C-4D7E-9B0E-0C2D4B7F9A11}"
PROPERTIES = {"SecureCustomProperties": "MASTER;JOIN;WIX_UPGRADE_DETECTED;WIX_DOWNGRADE_DETECTED", "MsiHiddenProperties": "JOIN;WriteJoin", "Quote": '"'}


def packages(work: Workshop, name: str, programs: dict[str, pathlib.Path]) -> list[str]:
    """Writes the package of the worker; returns what was left out, and why."""
    for tool in ("wixl", "msibuild"):
        if not shutil.which(tool):
            return [f"deskgrid-worker.msi: there is no {tool} (Debian: wixl msitools)"]

    # wixl takes names below its own directory only.
    place = work.scratch / name / "msi"
    place.mkdir(parents=True)
    shutil.copy(programs["deskgrid-worker"], place / "deskgrid-worker.exe")
    shutil.copy(programs["deskgrid-watch"], place / "deskgrid-watch.exe")
    shutil.copy(work.top / "packaging" / "debian" / "worker.toml", place / "worker.toml")
    shutil.copy(work.top / "packaging" / "windows" / "worker.wxs", place / "worker.wxs")
    for file in place.iterdir():
        os.utime(file, (work.epoch, work.epoch))
    made = place / "made.msi"
    # wixl would take numbers by chance, which would differ each time.
    number = lambda what: "{" + str(uuid.uuid5(uuid.NAMESPACE_URL, f"deskgrid {what} {work.version} {work.epoch}")).upper() + "}"  # noqa: E731
    files = {"PROGRAM": "deskgrid-worker.exe", "WATCHER": "deskgrid-watch.exe", "SETTINGS": "worker.toml"}
    given = {"VERSION": work.version, "PRODUCT": number("product"), "FAMILY": FAMILY.strip("{}"), **files}
    words = [word for key, value in given.items() for word in ("-D", f"{key}={value}")]
    work.run("wixl", "-a", "x64", *words, "-o", made, "worker.wxs", cwd=place)

    queries = []
    for action, kind, place_of, command, condition, at in ACTIONS:
        queries.append(f"INSERT INTO `CustomAction` (`Action`, `Type`, `Source`, `Target`) VALUES ('{action}', {kind}, '{place_of}', '{command}')")
        queries.append(f"INSERT INTO `InstallExecuteSequence` (`Action`, `Condition`, `Sequence`) VALUES ('{action}', '{condition}', {at})")
    for key, value in PROPERTIES.items():
        queries.append(f"DELETE FROM `Property` WHERE `Property` = '{key}'")
        queries.append(f"INSERT INTO `Property` (`Property`, `Value`) VALUES ('{key}', '{value}')")
    # A package that was built again has another product number with the same version: it takes the other's place, too (512), and is no second product.
    queries.append("DELETE FROM `Upgrade` WHERE `ActionProperty` = 'WIX_UPGRADE_DETECTED'")
    queries.append(
        "INSERT INTO `Upgrade` (`UpgradeCode`, `VersionMax`, `Attributes`, `ActionProperty`) "
        f"VALUES ('{FAMILY}', '{work.version}', 513, 'WIX_UPGRADE_DETECTED')"
    )
    # Never overwritten (128) and left by an upgrade (16): settings that somebody changed stay.
    queries.append("UPDATE `Component` SET `Attributes` = 400 WHERE `Component` = 'Settings'")
    queries.append(f"UPDATE `Registry` SET `Value` = '{MESSAGES}' WHERE `Name` = 'EventMessageFile'")
    for query in queries:
        work.run("msibuild", made, "-q", query)
    work.run("msibuild", made, "-s", "deskgrid worker", "The deskgrid contributors", "x64;1033", number("package"))
    package = work.into / f"deskgrid-worker-{work.version}-{name}.msi"
    package.write_bytes(dated(made.read_bytes(), work.epoch))
    return []


def dated(package: bytes, epoch: int) -> bytes:
    """Gives a package the commit's time for the two times of its making: those in units of 100 ns that are not an hour old."""
    filetime = lambda s: int((s + 11_644_473_600) * 10_000_000)  # noqa: E731
    now = time.time()

    def put(found: re.Match[bytes]) -> bytes:
        recent = filetime(now - 3600) < int.from_bytes(found[1], "little") < filetime(now + 60)
        return b"\x40\0\0\0" + filetime(epoch).to_bytes(8, "little") if recent else found[0]

    return re.sub(rb"\x40\0\0\0(.{8})", put, package, flags=re.DOTALL)
