"""What pip installs: the Python library with the program, as a wheel for each system, and their sources."""

import pathlib
import sys

from . import supply
from .build import Workshop


def write(work: Workshop, programs: dict[str, pathlib.Path]) -> None:
    """Writes the wheel of a system's program; a static one serves every C library. For macOS there is none: nobody has run its program."""
    if "deskgrid" not in programs or "darwin" in str(programs["deskgrid"]):
        return
    licences = work.scratch / "THIRD-PARTY-LICENCES.txt"
    if not licences.exists():
        licences.write_text(supply.licences(supply.linked(work)))
    _build(work, "--program", programs["deskgrid"], "--licences", licences)


def sources(work: Workshop) -> None:
    """Writes the source distribution."""
    _build(work, "--sources")


def _build(work: Workshop, *words: object) -> None:
    work.run(sys.executable, work.top / "python" / "build_wheel.py", *words, "--out", work.into)
