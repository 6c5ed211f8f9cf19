"""The result of a task that ran a program."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from ._api import Api, Json
from ._outcome import Place, Result, failure_of


class TaskOutput:
    """What a program printed and left.

    Attributes:
        task: The task, such as ``7.3``.
        host: The name of its host.
        files: The names of its output files with their lengths in bytes.
    """

    def __init__(self, api: Api, task: str, result: Json) -> None:
        self._api = api
        self._path = "/jobs/{}/tasks/{}".format(*task.split("."))
        self._stdout: str | None = result.get("stdout")
        self._stderr: str | None = result.get("stderr")
        self._texts = {file["path"]: file.get("text") for file in result.get("files", ())}
        self.task = task
        self.host = str(result.get("host") or "")
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
            raise KeyError(f"task {self.task} left no file {name!r}")
        text = self._texts.get(name)
        return text.encode() if text is not None else self._api.read(f"{self._path}/files/{name}")

    def save(self, into: str | Path, only: Container[str] | None = None) -> list[Path]:
        """Writes all output files, or those of some names, into a directory, which is made; returns
        their paths."""
        saved = []
        for name in self.files:
            if only is not None and name not in only:
                continue
            path = Path(into, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(path.name + ".new")
            with open(new, "wb") as file:
                self._api.fetch(f"{self._path}/files/{name}", file)
            new.replace(path)
            saved.append(path)
        return saved


def output_of(
    api: Api, job: int, index: int, well: bool, result: Json | None, reason: str
) -> Result:
    """Returns the output of a task, or why there is none."""
    output = TaskOutput(api, f"{job}.{index}", result or {})
    if well:
        return Result(output, None)
    stderr = "\n".join((output._stderr or "").splitlines()[-20:])
    failure = failure_of(reason, Place(output.task, output.host, stderr))
    failure.output = output
    return Result(None, failure)
