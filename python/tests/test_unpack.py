"""Archives from other machines, good and hostile."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from deskgrid._unpack import ARCHIVE, unpack

FILE, LINK, DIR, PIPE, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE


def archive(into: Path, *entries: tuple[str, bytes, str]) -> Path:
    """Makes an archive of these entries: their names, kinds, and contents or targets."""
    into.mkdir(exist_ok=True)
    with tarfile.open(into / ARCHIVE, "w") as tar:
        for name, kind, text in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0o755
            content = text.encode() if kind == FILE else b""
            entry.size = len(content)
            entry.linkname = "" if kind == FILE else text
            tar.addfile(entry, io.BytesIO(content))
    return into / ARCHIVE


def below(path: Path) -> list[str]:
    found = [os.path.join(dir, name) for dir, dirs, files in os.walk(path) for name in dirs + files]
    return sorted(os.path.relpath(name, path) for name in found)


def test_files_links_and_directories_come_back(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    entries = [
        ("out/latest", LINK, "run_12:30.log"),
        ("out/up", LINK, "../x"),
        ("out/run_12:30.log", FILE, "odd"),
        ("out/empty", DIR, ""),
        (odd, FILE, "latin"),
        ("x", FILE, "x"),
    ]
    # Twice: what is there already is replaced.
    for text in ("before", "odd"):
        made, left = unpack(archive(tmp_path / "into", *entries[:2], (*entries[2][:2], text), *entries[3:]))
        assert (len(made), left) == (6, [])
    assert (tmp_path / "into/out/latest").read_text() == "odd"
    assert (tmp_path / "into/out/up").read_text() == "x"
    assert (tmp_path / "into/out/empty").is_dir()
    assert (tmp_path / "into" / odd).read_text() == "latin"
    assert os.access(tmp_path / "into/x", os.X_OK)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("../evil", FILE, "x"),
        ("/tmp/deskgrid-evil", FILE, "x"),
        ("a/../../evil", FILE, "x"),
        ("l", LINK, "/etc"),
        ("l", LINK, "../outside"),
        ("a/l", LINK, "x/../../.."),
        ("a/l", LINK, "../../outside"),
        ("l", LINK, "l"),
        ("pipe", PIPE, ""),
        ("hard", HARD, "/etc/passwd"),
    ],
)
def test_nothing_is_made_outside(tmp_path: Path, name: str, kind: bytes, text: str) -> None:
    made, left = unpack(archive(tmp_path / "into", (name, kind, text), ("good", FILE, "good")))
    assert made == [tmp_path / "into/good"] and len(left) == 1 and f"`{name}`" in left[0]
    assert [path for path in below(tmp_path) if not path.endswith("/a")] == [
        "into", f"into/{ARCHIVE}", "into/good",
    ]  # fmt: skip
    assert not os.path.lexists("/tmp/deskgrid-evil")


def test_no_link_leads_out_through_another_one(tmp_path: Path) -> None:
    into = tmp_path / "into"
    made, left = unpack(archive(into, ("down", LINK, "a/b"), ("a/b", LINK, "../c"), ("c", DIR, ""), ("out", LINK, "down/../..")))
    assert len(made) == 3 and left == ["`out`: it is a link that leads out of its directory, or in a circle"]
    (tmp_path / "elsewhere").mkdir()
    (into / "mine").symlink_to("../elsewhere")
    made, left = unpack(archive(into, ("far", LINK, "mine"), ("farther", LINK, "mine/new")))
    assert made == [] and len(left) == 2


def test_what_is_in_the_place_of_a_file_stays(tmp_path: Path) -> None:
    into = tmp_path / "into"
    (into / "dir").mkdir(parents=True)
    (into / "file").write_text("mine")
    made, left = unpack(archive(into, ("dir", FILE, "x"), ("file/below", FILE, "x"), ("file", DIR, "")))
    assert made == [] and len(left) == 3
    assert (into / "file").read_text() == "mine"
