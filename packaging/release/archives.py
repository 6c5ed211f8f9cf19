"""Archives whose bytes depend on their files alone."""

import gzip
import io
import lzma
import pathlib
import tarfile
import zipfile
from datetime import UTC, datetime

from site_pages.assemble import published

from .build import Workshop

WATCHER = "deskgrid-watch"
LICENCES = ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT")


def write(work: Workshop, name: str, programs: dict[str, pathlib.Path]) -> None:
    """Writes one archive for each program of a system; the watcher of Windows lies beside each."""
    watcher = [programs[WATCHER]] if WATCHER in programs else []
    for program, built in programs.items():
        if program == WATCHER:
            continue
        stem = f"{program}-{work.version}-{name}"
        files = {f"{stem}/{file.name}": (file.read_bytes(), 0o755) for file in [built, *watcher]}
        for licence in LICENCES:
            files[f"{stem}/{licence}"] = ((work.top / licence).read_bytes(), 0o644)
        files[f"{stem}/README.md"] = (published((work.top / "README.md").read_text()).encode(), 0o644)
        if name.startswith("windows"):
            zipped(work.into / f"{stem}.zip", files, work.epoch)
            continue

        documents = work.documents() / program
        # Service files are for Linux.
        wanted = documents / "usr" / "share" if name.startswith("macos") else documents
        for file in sorted(path for path in wanted.rglob("*") if path.is_file()):
            files[f"{stem}/{file.relative_to(documents).as_posix().removeprefix('usr/')}"] = (file.read_bytes(), 0o644)
        (work.into / f"{stem}.tar.xz").write_bytes(lzma.compress(tar(files, work.epoch), preset=9))


def tar(files: dict[str, tuple[bytes, int]], epoch: int) -> bytes:
    """A tar of files by name, each with its content and mode; all of root's, and of one time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zipped(path: pathlib.Path, files: dict[str, tuple[bytes, int]], epoch: int) -> None:
    """Writes a zip of files by name."""
    time = datetime.fromtimestamp(epoch, UTC).timetuple()[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, time)
            entry.external_attr, entry.compress_type, entry.create_system = mode << 16, zipfile.ZIP_DEFLATED, 3
            archive.writestr(entry, content)


def gzipped(content: bytes) -> bytes:
    """What `gzip -9n` makes."""
    return gzip.compress(content, compresslevel=9, mtime=0)
