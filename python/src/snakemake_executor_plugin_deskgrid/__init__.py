"""The Snakemake executor ``deskgrid``: each job of a workflow is a job of the grid. Snakemake finds
it by the name of this package::

    snakemake --executor deskgrid --jobs 100

There is no shared file system: a job's inputs, the workflow's sources and the job's outputs travel
with it, and Snakemake runs again on the host for the one job.

Not here: the grid (:mod:`deskgrid`).
"""

import shlex
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from importlib.metadata import version
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, Optional

from deskgrid import DeskgridError, Env, Grid, Job, TaskFailed, TaskOutput
from deskgrid._unpack import ARCHIVE
from deskgrid.env import FLAGS, Prepared

try:
    from snakemake_interface_common.exceptions import WorkflowError
    from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
    from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase
except ImportError as error:
    raise ImportError("this plugin is a part of Snakemake: pip install snakemake") from error

#: The name of the workflow's sources in a task's directory, and how large one of them may be.
SOURCES = ".deskgrid-sources.tar"
LARGEST_SOURCE = 10_000_000

#: States of a job of the grid whose results can still come.
LIVING = ("waiting", "running", "finished")

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=True,
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    can_transfer_local_files=True,
)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]
    """The settings of the executor: ``--deskgrid-dir`` and so on."""

    # Snakemake reads these types: it knows no `str | None`.
    dir: Optional[str] = field(
        default=None, metadata={"help": "The directory with your identity at the grid"}
    )
    env: str = field(
        default="host",
        metadata={
            "help": "The Python with Snakemake on the hosts: `host` for theirs, `auto` for one that is "
            "made here by uv and sent to them, or a packed environment (a directory or an archive)"
        },
    )
    packages: Optional[str] = field(
        default=None,
        metadata={"help": "With `auto`: what rules need beside Snakemake, such as `numpy pandas>=2`"},
    )
    python: Optional[str] = field(
        default=None,
        metadata={"help": "With `auto`: an installation of Python to send instead of a downloaded one"},
    )
    needs: Optional[str] = field(
        default=None, metadata={"help": "What all jobs need of their hosts: `os=linux,label=lab3`"}
    )
    network: bool = field(default=False, metadata={"help": "Whether the jobs use the network"})


class Executor(RemoteExecutor):  # type: ignore[misc]
    """Submits the jobs of a workflow to the grid, and brings their files back."""

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings or ExecutorSettings()
        self._grid = Grid(dir=settings.dir, label="snakemake", progress=False)
        try:
            self._env: Prepared = environment(settings).prepare(self._grid._session.api, print)
        except DeskgridError as error:
            raise WorkflowError("the environment of the jobs cannot be made", error) from error
        self._options: dict[str, Any] = {"network": settings.network}
        if settings.needs:
            self._options["needs"] = [settings.needs]
        self._sources = Path(tempfile.mkdtemp(prefix="deskgrid-"), SOURCES)
        # It asks this process only, and no grid.
        self.next_seconds_between_status_checks = 0.2

    def get_python_executable(self) -> str:
        """Returns the Python that runs Snakemake on the host."""
        return self._env.python[0] + "".join(f" {word}" for word in FLAGS[1:])

    def run_job(self, job: Any) -> None:
        """Submits a job, unless the grid has it from an earlier run of the workflow."""
        before = self.dag.incomplete_external_jobid(job)
        task = self._resumed(before) if before else None
        if task is None:
            task = self._submitted(job)
        else:
            self.logger.info(f"Job {job.jobid} goes on as job {task.id} of the grid.")
        info = SubmittedJobInfo(job, external_jobid=str(task.id), aux={"task": task})
        self.report_job_submission(info)

    def _resumed(self, number: str) -> Job[TaskOutput] | None:
        """Returns a job of an earlier run, if its results can still come."""
        try:
            task = self._grid.job(int(number))
            return task if task.state in LIVING else None
        except (DeskgridError, ValueError):
            return None

    def _submitted(self, job: Any) -> Job[TaskOutput]:
        inputs: dict[str, str | PathLike[str]] = {SOURCES: self._packed_sources()}
        inputs.update(_named(job.input, "input"))
        try:
            return self._grid.run(
                ["sh", "-c", self._script(job).replace("%{", "%%{")],
                inputs=inputs,
                outputs=sorted(_named([*_outputs(job), *_notes(job)], "output")),
                prepared=self._env,
                **self._options_of(job),
            )
        except DeskgridError as error:
            raise WorkflowError(f"job {job.jobid} cannot be submitted to the grid", error) from error

    def _options_of(self, job: Any) -> dict[str, Any]:
        """Returns the options of a job, by its threads and resources."""
        options = {**self._options, "name": job.name[:50], "cpus": max(1, job.threads)}
        options["variables"] = dict(self.envvars())
        resources = job.resources
        if isinstance(resources.get("mem_mb"), int):
            options["memory"] = f"{resources.get('mem_mb')}M"
        if isinstance(resources.get("runtime"), int):
            options["time_limit"] = f"{resources.get('runtime')}m"
        return options

    def _script(self, job: Any) -> str:
        """Returns what a task runs. A log that the job did not write comes back empty."""
        notes = [shlex.quote(name) for name in _named(_notes(job), "log")]
        dirs = sorted({str(PurePosixPath(name).parent) for name in _notes(job)})
        lines = [f'export PYTHONPATH="$PWD/{path}"' for path in self._env.paths]
        lines += [
            'export HOME="$PWD"',
            f"{self.get_python_executable()} -m tarfile -e {SOURCES} . || exit 1",
            f"({self.format_job_exec(job)})",
            "code=$?",
        ]
        if notes:
            lines += [f"mkdir -p {shlex.join(dirs)}", f"touch -a {' '.join(notes)}"]
        return "\n".join([*lines, "exit $code"])

    def _packed_sources(self) -> Path:
        """Packs the sources of the workflow, once."""
        if self._sources.exists():
            return self._sources
        with tarfile.open(self._sources, "w") as archive:
            for name in sorted(self.dag.get_sources()):
                path = Path(name)
                if ".." in path.parts or path.is_absolute():
                    self.logger.warning(
                        f"The source {name} is not sent to the hosts: it lies outside of the "
                        "working directory. Move it there if a job needs it."
                    )
                elif not path.is_file() or path.stat().st_size > LARGEST_SOURCE:
                    self.logger.warning(f"The source {name} is not sent to the hosts: it is too large.")
                else:
                    archive.add(path, name, filter=_same_each_time)
        return self._sources

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Reports the jobs that have ended, and yields the others."""
        for info in active_jobs:
            (future,) = info.aux["task"].futures
            if not future.done():
                yield info
                continue
            try:
                output = future.result()
                self._save(info.job, output)
                self.report_job_success(info)
            except (Exception, CancelledError) as error:
                self._report(info, error)

    def _save(self, job: Any, output: TaskOutput) -> None:
        """Writes what a job has left to where it belongs."""
        output.save(".")
        for warning in output.warnings:
            if ARCHIVE not in warning:
                self.logger.warning(f"Task {output.task} of the grid: {warning}")
        for file in _outputs(job):
            if getattr(file, "is_directory", False):
                # A directory without anything in it does not travel.
                Path(file).mkdir(parents=True, exist_ok=True)

    def _report(self, info: SubmittedJobInfo, error: BaseException) -> None:
        """Reports that a job has failed, with what it printed. Where that cannot be kept, it has failed all
        the same."""
        logs: list[str] = []
        if isinstance(error, TaskFailed) and error.output is not None:
            try:
                logs.append(str(_kept(info, error.output)))
            except (Exception, CancelledError) as trouble:
                number, why = info.external_jobid, _in_words(trouble)
                self.logger.warning(f"What job {number} of the grid printed cannot be kept: {why}")
        self.report_job_error(info, msg=f"{_in_words(error)}\n", aux_logs=logs)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancels jobs at the grid."""
        for info in active_jobs:
            try:
                info.aux["task"].cancel()
            except DeskgridError as error:
                self.logger.warning(f"Job {info.external_jobid} of the grid is not cancelled: {error}")

    def shutdown(self) -> None:
        """Ends the connection to the grid."""
        super().shutdown()
        self._grid.shutdown(wait=False)
        self._sources.unlink(missing_ok=True)
        self._sources.parent.rmdir()


def environment(settings: ExecutorSettings) -> Env:
    """Returns the environment in which Snakemake runs on the hosts.

    Raises:
        EnvError: It cannot be made.
    """
    if settings.env == "host":
        return Env.host()
    if settings.env != "auto":
        return Env.packed(settings.env)
    packages = [f"snakemake=={version('snakemake')}", *(settings.packages or "").split()]
    # A package that Snakemake needs and that is on PyPI as sources alone.
    return Env.auto(packages, sdists=["connection-pool"], python=settings.python)


def _kept(info: SubmittedJobInfo, output: TaskOutput) -> Path:
    """Writes the logs of a job that has failed, and what it printed; returns where that is."""
    output.save(".", only=set(_named(_notes(info.job), "log")))
    path = Path(".snakemake", "deskgrid_logs", f"{info.external_jobid}.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(output.stdout + output.stderr)
    return path


def _in_words(error: BaseException) -> str:
    """Returns what an error says; of those of others, which may say little, also what it is."""
    return str(error) if isinstance(error, DeskgridError) else f"{type(error).__name__}: {error}"


def _outputs(job: Any) -> list[Any]:
    """Returns the files that a job makes; of a group also those that its own jobs read again."""
    jobs = job.jobs if job.is_group() else [job]
    return [file for one in jobs for file in one.output]


def _notes(job: Any) -> list[str]:
    """Returns the files of a job that may or may not be there when it ends: logs and benchmarks."""
    jobs = job.jobs if job.is_group() else [job]
    return [str(name) for one in jobs for name in [*one.log, one.benchmark] if name]


def _named(files: Iterable[Any], kind: str) -> dict[str, Path]:
    """Returns files by their names in a task's directory, which are those in the working directory.

    Raises:
        WorkflowError: One of them lies elsewhere.
    """
    named: dict[str, Path] = {}
    for file in files:
        path = Path(str(file))
        if path.is_absolute() or ".." in path.parts:
            raise WorkflowError(
                f"The {kind} {file} lies outside of the working directory: a host of the grid has "
                "no such path. Use a path below the working directory."
            )
        named[path.as_posix()] = path
    return named


def _same_each_time(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leaves out of an archive what would make another one of the same sources."""
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    return entry
