"""The result of a task that ran a program."""

from __future__ import annotations

import re
import tarfile
import uuid
from collections.abc import Container
from pathlib import Path

from ._api import Api, Json
from ._outcome import Place, Result, failure_of
from ._unpack import ARCHIVE, unpack
from .errors import TaskError

#: The most entries of an archive that an error names.
MOST_TOLD = 5


class TaskOutput:
    """What a program printed and left.

    Attributes:
        task: The task, such as ``7.3``.
        host: The name of its host.
        files: The names of its output files with their lengths in bytes.
        warnings: The outputs that were not kept as they were, in words.
    """

    def __init__(self, api: Api, task: str, result: Json) -> None:
        self._api = api
        self._path = "/jobs/{}/tasks/{}".format(*task.split("."))
        self._stdout: str | None = result.get("stdout")
        self._stderr: str | None = result.get("stderr")
        self._texts = {file["path"]: file.get("text") for file in result.get("files", ())}
        self.task = task
        self.host = str(result.get("host") or "")
        self.warnings = [str(warning) for warning in result.get("warnings", ())]
        self.files = {file["path"]: int(file["bytes"]) for file in result.get("files", ())}

    def __repr__(self) -> str:
        return f"TaskOutput(task={self.task!r}, host={self.host!r}, files={self.files!r})"

    @property
    def stdout(self) -> str:
        """What it wrote to standard output."""
        if self._stdout is None:
            self._stdout = self._api.read(f"{self._path}/stdout").decode(errors="replace")
        return self._stdout

    @property
    def stderr(self) -> str:
        """What it wrote to standard error."""
        if self._stderr is None:
            self._stderr = self._api.read(f"{self._path}/stderr").decode(errors="replace")
        return self._stderr

    def read(self, name: str) -> bytes:
        """Returns the bytes of an output file.

        Raises:
            KeyError: It left no such file.
        """
        if name not in self.files:
            raise KeyError(f"task {self.task} left no file {name!r} by itself; `files` has those that it left")
        text = self._texts.get(name)
        return text.encode() if text is not None else self._api.read(f"{self._path}/files/{name}")

    def save(self, into: str | Path, only: Container[str] | None = None) -> list[Path]:
        """Writes all output files, or those of some names, into a directory, which is made; returns
        their paths. What lies in ``deskgrid-apart.tar`` (docs/files.md) is unpacked beside them.

        Raises:
            TaskError: Something of it could not be unpacked: the archive stays then.
        """
        saved = []
        archives = [name for name in self.files if self._is_archive(name)]
        for name in self.files:
            if name not in archives and (only is None or name in only):
                saved.append(self._save(name, into))
        for name in archives:
            archive = self._save(name, into)
            try:
                made, left = unpack(archive, only)
            except tarfile.TarError as error:
                made, left = [], [f"it is no archive: {error}"]
            if left:
                more = f", and {len(left) - MOST_TOLD} more" if len(left) > MOST_TOLD else ""
                raise TaskError(
                    f"not all of {archive} could be unpacked: {'; '.join(left[:MOST_TOLD])}{more}",
                    f"the archive has them: tar -xf {archive} in another directory",
                    self.task,
                    self.host,
                )
            archive.unlink()
            saved += made
        return saved

    def _is_archive(self, name: str) -> bool:
        """Whether outputs lie in this file that cannot be files everywhere."""
        # Other warnings may quote a file of that name which the task has left itself.
        told = re.compile(rf"[0-9]+ of its outputs lie in `{re.escape(name)}`: ")
        return name.lstrip("_") == ARCHIVE and any(told.match(warning) for warning in self.warnings)

    def _save(self, name: str, into: str | Path) -> Path:
        """Writes a file once it is whole."""
        path = Path(into, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".deskgrid-{uuid.uuid4().hex}")
        try:
            with open(new, "wb") as file:
                self._api.fetch(f"{self._path}/files/{name}", file)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        return path


def output_of(api: Api, job: int, index: int, well: bool, result: Json, reason: str) -> Result:
    """Returns the output of a task, or why there is none."""
    output = TaskOutput(api, f"{job}.{index}", result)
    if well:
        return Result(output, None)
    stderr = "\n".join((output._stderr or "").splitlines()[-20:])
    failure = failure_of(reason, Place(output.task, output.host, stderr))
    failure.output = output
    return Result(None, failure)
