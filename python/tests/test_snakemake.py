"""The Snakemake executor: hosts share no directory with this machine, nor with each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from world import World, eventually

from deskgrid import TaskFailed

pytest.importorskip("snakemake", reason="Snakemake is not installed")

LEVELS = """
SAMPLES = [f"s{i}" for i in range(WIDTH)]
configfile: "config.yaml"

rule all:
    input: "report/all.txt"

rule make:
    output: "raw/{s}.txt"
    log: "logs/{s}.log"
    shell: "echo {config[word]} {wildcards.s} > {output} 2> {log}"

rule count:
    input: "raw/{s}.txt"
    output: txt="counted/{s}.txt", parts=directory("parts/{s}")
    script: "scripts/count.py"

rule report:
    input: expand("counted/{s}.txt", s=SAMPLES)
    output: "report/all.txt"
    shell: "cat {input} > {output}"
"""

COUNT = """
import os
text = open(snakemake.input[0]).read()
os.makedirs(snakemake.output.parts)
for i, word in enumerate(text.split()):
    open(f"{snakemake.output.parts}/{i}", "w").write(word)
open(snakemake.output.txt, "w").write(f"{len(text)} {text}")
"""

SLOW = """
rule slow:
    output: "slow.txt"
    shell: "sleep SECONDS; echo done > {output}"
"""


def workflow(into: Path, snakefile: str) -> Path:
    """Writes a workflow into a new directory."""
    (into / "scripts").mkdir(parents=True)
    (into / "Snakefile").write_text(snakefile)
    (into / "config.yaml").write_text("word: hello\n")
    (into / "scripts" / "count.py").write_text(COUNT)
    return into


def command(world: World) -> list[str]:
    return [
        sys.executable, "-m", "snakemake", "--executor", "deskgrid",
        "--deskgrid-dir", world.user, "--jobs", "20",
    ]  # fmt: skip


def run(words: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600
    )


def files(where: Path) -> dict[str, bytes]:
    """What a workflow has made."""
    return {
        str(path.relative_to(where)): path.read_bytes()
        for path in sorted(where.rglob("*"))
        if path.is_file() and not {".snakemake", ".snakemake_timestamp"} & set(path.parts)
    }


def running(world: World, name: str) -> Any:
    jobs = world.json("job", "list", "--all")["jobs"]
    return [job for job in jobs if job["name"] == name and job["tasks"]["running"]]


def test_a_workflow_gives_the_same_files_as_on_this_machine(packaged: World, tmp_path: Path) -> None:
    width = os.environ.get("DESKGRID_WORKFLOW_WIDTH", "4")
    here = workflow(tmp_path / "here", LEVELS.replace("WIDTH", width))
    there = workflow(tmp_path / "there", LEVELS.replace("WIDTH", width))
    local = run([sys.executable, "-m", "snakemake", "--executor", "local", "--cores", "2"], here)
    assert local.returncode == 0, local.stdout

    ran = run(command(packaged), there)
    assert ran.returncode == 0, ran.stdout
    assert files(there) == files(here)
    assert len(files(there)) == 3 + 5 * int(width) + 1

    again = run(command(packaged), there)
    assert "Nothing to be done" in again.stdout, again.stdout


def test_links_and_empty_directories_of_an_output_come_back(packaged: World, tmp_path: Path) -> None:
    words = "mkdir -p {output}/empty; echo odd > {output}/a:b.log; ln -s a:b.log {output}/latest"
    text = f'rule odd:\n    output: directory("out")\n    shell: "{words}"\n'
    there = workflow(tmp_path / "w", text)
    ran = run(command(packaged), there)
    assert ran.returncode == 0, ran.stdout
    assert sorted(set(os.listdir(there / "out")) - {".snakemake_timestamp"}) == ["a:b.log", "empty", "latest"]
    assert (there / "out/latest").read_text() == "odd\n" and (there / "out/latest").is_symlink()
    assert not (there / "deskgrid-apart.tar").exists()


def test_a_rule_that_fails_shows_its_log(packaged: World, tmp_path: Path) -> None:
    text = 'rule bad:\n    output: "x.txt"\n    log: "bad.log"\n    shell: "echo because >{log}; echo aloud >&2; exit 7"\n'
    ran = run([*command(packaged), "--show-failed-logs"], workflow(tmp_path / "w", text))
    assert ran.returncode == 1
    assert "because" in ran.stdout and "aloud" in ran.stdout, ran.stdout


def test_a_failure_is_reported_where_what_the_job_printed_cannot_be_kept(tmp_path: Path, monkeypatch: Any) -> None:
    from snakemake_executor_plugin_deskgrid import Executor

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").write_text("a file where the logs were to go")
    warned: list[str] = []
    reported: list[tuple[str, list[str]]] = []
    executor: Any = SimpleNamespace(
        logger=SimpleNamespace(warning=warned.append),
        report_job_error=lambda info, msg, aux_logs: reported.append((msg, aux_logs)),
    )
    job = SimpleNamespace(log=[], benchmark=None, is_group=lambda: False)
    info: Any = SimpleNamespace(job=job, external_jobid="7")
    output: Any = SimpleNamespace(save=lambda *args, **more: None, stdout="", stderr="because")
    failure = TaskFailed("it ended with exit code 7", "7.1")
    failure.output = output

    Executor._report(executor, info, failure)
    Executor._report(executor, info, CancelledError())
    assert "job 7 of the grid" in warned[0] and len(warned) == 1
    assert "exit code 7" in reported[0][0] and reported[0][1] == []
    assert "CancelledError" in reported[1][0]


def test_an_input_outside_of_the_directory_is_refused(packaged: World, tmp_path: Path) -> None:
    (tmp_path / "far.txt").write_text("x")
    text = f'rule far:\n    input: "{tmp_path}/far.txt"\n    output: "x.txt"\n    shell: "cp {{input}} {{output}}"\n'
    ran = run(command(packaged), workflow(tmp_path / "w", text))
    assert ran.returncode == 1 and "outside of the working directory" in ran.stdout, ran.stdout


def test_ctrl_c_cancels_the_jobs(packaged: World, tmp_path: Path) -> None:
    where = workflow(tmp_path / "w", SLOW.replace("SECONDS", "900").replace("rule slow", "rule endless"))
    process = subprocess.Popen(command(packaged), cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        (job,) = eventually("it runs", lambda: running(packaged, "endless"), 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) != 0
    finally:
        process.kill()
    assert packaged.json("job", "info", str(job["job"]))["state"] == "cancelled"


def test_a_workflow_that_was_killed_goes_on_with_its_jobs(packaged: World, tmp_path: Path) -> None:
    where = workflow(tmp_path / "w", SLOW.replace("SECONDS", "8"))
    process = subprocess.Popen(command(packaged), cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually("it runs", lambda: running(packaged, "slow"), 120)
    process.kill()
    process.wait()
    assert run([*command(packaged), "--unlock"], where).returncode == 0

    ran = run(command(packaged), where)
    assert ran.returncode == 0 and "goes on as job" in ran.stdout, ran.stdout
    assert (where / "slow.txt").read_text() == "done\n"
    jobs = packaged.json("job", "list", "--all")["jobs"]
    assert len([job for job in jobs if job["name"] == "slow"]) == 1


def test_a_workflow_that_was_killed_in_the_middle_gives_the_same_files(
    packaged: World, tmp_path: Path
) -> None:
    text = LEVELS.replace("WIDTH", os.environ.get("DESKGRID_WORKFLOW_WIDTH", "4"))
    here, there = workflow(tmp_path / "here", text), workflow(tmp_path / "there", text)
    local = run([sys.executable, "-m", "snakemake", "--executor", "local", "--cores", "2"], here)
    assert local.returncode == 0, local.stdout

    process = subprocess.Popen(command(packaged), cwd=there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually("some are done", lambda: len(list(there.glob("raw/*.txt"))) >= 2, 300)
    process.kill()
    process.wait()
    assert files(there) != files(here)
    assert run([*command(packaged), "--unlock"], there).returncode == 0
    ran = run([*command(packaged), "--rerun-incomplete"], there)
    assert ran.returncode == 0, ran.stdout
    assert files(there) == files(here)


def test_jobs_of_a_group_are_one_job_of_the_grid(packaged: World, tmp_path: Path) -> None:
    where = workflow(tmp_path / "w", LEVELS.replace("WIDTH", "4"))
    before = len(packaged.json("job", "list", "--all")["jobs"])
    grouped = ["--groups", "make=pair", "count=pair", "--group-components", "pair=2"]
    ran = run([*command(packaged), *grouped], where)
    assert ran.returncode == 0, ran.stdout
    assert len(files(where)) == 3 + 5 * 4 + 1
    # Two groups of two samples with two rules each, and the report.
    assert len(packaged.json("job", "list", "--all")["jobs"]) - before == 3


def test_hosts_without_snakemake_get_it_from_here(world: World, tmp_path: Path) -> None:
    where = workflow(tmp_path / "w", LEVELS.replace("WIDTH", "2"))
    python = ["--deskgrid-env", "auto", "--deskgrid-python", sys.executable]
    ran = run([*command(world), *python], where)
    assert ran.returncode == 0, ran.stdout
    assert len(files(where)) == 3 + 5 * 2 + 1
    missing = run([*command(world), *python, "--deskgrid-packages", "deskgrid-no-such-package", "--forceall"], where)
    assert missing.returncode == 1 and "deskgrid-no-such-package" in missing.stdout, missing.stdout
