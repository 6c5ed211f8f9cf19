"""Packages for distributions: .deb by dpkg-deb, .rpm by rpmbuild."""

import os
import pathlib
import shutil
from datetime import UTC, datetime

from . import supply
from .archives import gzipped
from .build import Workshop

DEBIAN = {"linux-x86_64": "amd64", "linux-aarch64": "arm64"}
RPM = {"linux-x86_64": "x86_64", "linux-aarch64": "aarch64"}
MAINTAINER = "The deskgrid contributors <deskgrid@example.org>"

#: Of each package: what it is for, what it needs, and what a distribution's checker is told about the program.
PACKAGES = {
    "deskgrid": (
        "master and client of the desktop grid deskgrid",
        "The program of the machine that keeps the jobs, and of the people\nwho submit them.",
        "",
    ),
    "deskgrid-worker": (
        "puts this PC to work on tasks while nobody needs it",
        "A service that computes tasks for the master of a desktop grid. The\nowner of the PC never notices: tasks are frozen at once.",
        "debconf (>= 0.5) | debconf-2.0, systemd | systemd-sysusers, passwd",
    ),
}


def packages(work: Workshop, name: str, programs: dict[str, pathlib.Path]) -> list[str]:
    """Writes the packages of the programs; returns what was left out, and why."""
    missing = []
    for program, built in programs.items():
        tree = work.scratch / name / program
        _tree(work, program, built, tree)
        if shutil.which("dpkg-deb"):
            _deb(work, program, DEBIAN[name], tree)
        else:
            missing.append(f"{program}.deb: there is no dpkg-deb (Debian: dpkg)")
        if shutil.which("rpmbuild"):
            _rpm(work, program, RPM[name], tree)
        else:
            missing.append(f"{program}.rpm: there is no rpmbuild (Debian: rpm)")
    return missing


def _tree(work: Workshop, program: str, built: pathlib.Path, tree: pathlib.Path) -> None:
    """The files as they lie below the root of a machine, alike in both kinds of packages."""
    shutil.copytree(work.documents() / program, tree)
    for page in (tree / "usr/share/man").rglob("*.[18]"):
        page.with_name(page.name + ".gz").write_bytes(gzipped(page.read_bytes()))
        page.unlink()
    _put(tree / "usr/bin" / program, built.read_bytes(), 0o755)
    if program == "deskgrid-worker":
        _put(tree / "etc/deskgrid/worker.toml", (work.top / "packaging/debian/worker.toml").read_bytes())

    doc = tree / "usr/share/doc" / program
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        _put(doc / licence, (work.top / licence).read_bytes())
    _put(doc / "copyright", (work.top / "packaging/debian/copyright").read_bytes())
    _put(doc / "THIRD-PARTY-LICENCES.txt.gz", gzipped(supply.licences(supply.linked(work)).encode()))
    date = datetime.fromtimestamp(work.epoch, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    log = f"{program} ({work.version}) unstable; urgency=medium\n\n  * See https://keepachangelog.com in the sources.\n\n -- {MAINTAINER}  {date}\n"
    _put(doc / "changelog.gz", gzipped(log.encode()))
    _settle(work, tree)


def _put(path: pathlib.Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _settle(work: Workshop, tree: pathlib.Path) -> None:
    """Gives everything the commit's time and the usual modes."""
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0o755)
        elif path.parent.name not in ("bin", "DEBIAN"):
            path.chmod(0o644)
        os.utime(path, (work.epoch, work.epoch))
    tree.chmod(0o755)


def _deb(work: Workshop, program: str, machine: str, files: pathlib.Path) -> None:
    tree = files.with_name(f"{program}-deb")
    shutil.copytree(files, tree)
    short, long, needs = PACKAGES[program]
    size = sum(file.stat().st_size for file in files.rglob("*") if file.is_file()) // 1024 + 1
    control = [f"Package: {program}", f"Version: {work.version}", f"Architecture: {machine}", f"Maintainer: {MAINTAINER}"]
    control += [f"Installed-Size: {size}", "Section: science", "Priority: optional"]
    control += [f"Depends: {needs}"] if needs else []
    control += [f"Description: {short}"] + [f" {line}" for line in long.split("\n")]
    place = tree / "DEBIAN"
    _put(place / "control", ("\n".join(control) + "\n").encode())

    source = work.top / "packaging" / "debian"
    for part in ("config", "postinst", "prerm", "postrm", "templates"):
        script = source / f"{program}.{part}"
        if script.exists():
            _put(place / part, script.read_bytes(), 0o644 if part == "templates" else 0o755)
    if (tree / "etc").exists():
        kept = sorted(file for file in (tree / "etc").rglob("*") if file.is_file())
        _put(place / "conffiles", "".join(f"/{file.relative_to(tree)}\n" for file in kept).encode())
    # Static on purpose: it runs on every distribution, whatever libraries that has.
    tags = ("statically-linked-binary", "embedded-library")
    overrides = "".join(f"{program}: {tag}\n" for tag in tags)
    _put(tree / "usr/share/lintian/overrides" / program, overrides.encode())
    sums = [work.said("md5sum", str(file)).split()[0] + f"  {file.relative_to(tree)}\n" for file in sorted(tree.rglob("*"))
            if file.is_file() and "DEBIAN" not in file.parts]
    _put(place / "md5sums", "".join(sums).encode())
    _settle(work, tree)

    into = work.into / f"{program}_{work.version}_{machine}.deb"
    work.run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z9", "--build", tree, into, env={**os.environ, "SOURCE_DATE_EPOCH": str(work.epoch)})


def _zsh_of_rpm(files: pathlib.Path) -> None:
    """Moves completions from where Debian's zsh looks for those of packages to where everybody else's does."""
    zsh = files / "usr/share/zsh"
    if (zsh / "vendor-completions").exists():
        (zsh / "vendor-completions").rename(zsh / "site-functions")


def _rpm(work: Workshop, program: str, machine: str, files: pathlib.Path) -> None:
    short, long, _ = PACKAGES[program]
    _zsh_of_rpm(files)
    scripts = work.top / "packaging" / "rpm" / f"{program}.scripts"
    own = sorted(path for path in files.rglob("deskgrid*") if path.is_dir())
    listed = [f"%dir /{path.relative_to(files).as_posix()}" for path in own]
    for file in sorted(path for path in files.rglob("*") if path.is_file()):
        path = "/" + file.relative_to(files).as_posix()
        listed.append(f"%config(noreplace) {path}" if path.startswith("/etc/") else path)
    lines = [
        f"Name: {program}", f"Version: {work.version}", "Release: 1", f"Summary: {short}", "License: MIT OR Apache-2.0",
        "AutoReqProv: no", *(["Requires: systemd, shadow-utils"] if scripts.exists() else []),
        "%description", long, "%install", f"cp -a {files}/. %{{buildroot}}/",
        "%files", "%defattr(-,root,root)", *listed, *([scripts.read_text()] if scripts.exists() else []),
    ]
    spec = files.with_name(f"{program}.spec")
    spec.write_text("\n".join(lines) + "\n")
    top = files.with_name(f"{program}-rpm")
    macros = {
        "_topdir": str(top), "_rpmdir": str(work.into), "_build_name_fmt": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
        "_buildhost": "deskgrid", "use_source_date_epoch_as_buildtime": "1", "clamp_mtime_to_source_date_epoch": "1",
        "__os_install_post": "%{nil}", "debug_package": "%{nil}", "_build_id_links": "none", "_binary_payload": "w9.gzdio",
    }
    words = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    work.run("rpmbuild", "-bb", "--quiet", "--target", machine, *words, spec, env={**os.environ, "SOURCE_DATE_EPOCH": str(work.epoch)})
