"""Measures what calls cost: of deskgrid beside joblib's loky, Dask, Ray and executorlib, in one run on
one machine.

    pip install cloudpickle joblib 'dask[distributed]' ray executorlib numpy
    DESKGRID_BINARY=… python python/bench.py [--calls 10000] [--rounds 3] [--only deskgrid,loky]

It starts a master and a worker with two slots on this machine, as the tests do, anew in each round;
all of them take turns in each round. Printed are medians, with the least and the most of the rounds,
and the load of the machine. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "src"), str(HERE / "tests")]

from world import World, binary, python_with_packages  # noqa: E402

from deskgrid import Grid  # noqa: E402

SLOTS = 2
ARRAY = 100_000_000
USERS = 200


def nothing(x: int) -> int:
    return x


def length(data: Any, x: int) -> int:
    return len(data) + x


def array() -> Any:
    """An array that nobody has seen yet."""
    import numpy

    return numpy.frombuffer(os.urandom(ARRAY), dtype="uint8")


#: The seconds of each measurement in each round, with its number of calls.
TAKEN: dict[tuple[str, int], list[float]] = defaultdict(list)


def report(what: str, calls: int, work: Callable[[], Any]) -> None:
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    TAKEN[what, calls].append(seconds)
    print(f"{what:48} {calls:7} calls {seconds:8.2f} s {calls / seconds:9.0f} calls/s", flush=True)


def summary() -> None:
    print(f"\nmedian (least to most) of {max(map(len, TAKEN.values()))} rounds")
    for (what, calls), taken in TAKEN.items():
        middle, least, most = statistics.median(taken), min(taken), max(taken)
        print(
            f"{what:48} {calls:7} calls {middle:8.2f} s ({least:.2f} to {most:.2f})"
            f" {calls / middle:9.0f} calls/s ({calls / most:.0f} to {calls / least:.0f})"
        )


def sent(world: World) -> int:
    """The bytes of content that the master sent to hosts."""
    import re
    import urllib.request

    with urllib.request.urlopen(f"http://{world.http}/metrics") as answer:
        found = re.search(r'content_sent_bytes_total\{by="master"\} (\d+)', answer.read().decode())
    return int(found[1]) if found else 0


def deskgrid(calls: int) -> None:
    world = World()
    hosts = tempfile.TemporaryDirectory(prefix="deskgrid-bench-")
    try:
        world.worker("desk-1", slots=SLOTS, config=python_with_packages(Path(hosts.name)))
        with Grid(dir=world.user, progress=False) as g:
            report("deskgrid: first call", 1, lambda: g.submit(nothing, 1).result())
            report("deskgrid: map", calls, lambda: sum(g.map(nothing, range(calls))))
            report("deskgrid: submit, one by one", calls, lambda: all_of(g.submit, calls))
            report(
                "deskgrid: a process for each call",
                calls,
                lambda: sum(g.map(nothing, range(calls), own_process=True)),
            )
            few = calls // 10
            report(
                "deskgrid: a task for each call",
                few,
                lambda: sum(g.map(nothing, range(few), chunksize=1)),
            )
            data = array()
            before = sent(world)
            report(
                f"deskgrid: {ARRAY // 10**6} MB for {USERS} tasks",
                USERS,
                lambda: list(g.map(length, [data] * USERS, range(USERS), chunksize=1)),
            )
            print(f"  … {(sent(world) - before) / 1e6:.0f} MB went to the host")
            report(
                f"deskgrid: {ARRAY // 10**6} MB, a process for each call",
                USERS,
                lambda: list(g.map(length, [data] * USERS, range(USERS), own_process=True)),
            )
    finally:
        world.close()
        hosts.cleanup()


def all_of(submit: Callable[..., Any], calls: int) -> int:
    return sum(future.result() for future in [submit(nothing, i) for i in range(calls)])


def loky(calls: int) -> None:
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    def parallel() -> Any:
        return Parallel(n_jobs=SLOTS)

    report("loky: first call", 1, lambda: parallel()([delayed(nothing)(1)]))
    report("loky: joblib.Parallel", calls, lambda: parallel()(delayed(nothing)(i) for i in range(calls)))
    executor = get_reusable_executor(max_workers=SLOTS)
    report("loky: submit, one by one", calls, lambda: all_of(executor.submit, calls))
    executor.shutdown()
    data = array()
    report(
        f"loky: {ARRAY // 10**6} MB for {USERS} calls",
        USERS,
        lambda: parallel()(delayed(length)(data, i) for i in range(USERS)),
    )


@contextmanager
def cluster() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=SLOTS, threads_per_worker=1, dashboard_address=None) as local:
        with Client(local) as client:
            yield client


def dask(calls: int) -> None:
    with cluster() as client:
        report("Dask: first call", 1, lambda: client.submit(nothing, 1).result())
        report("Dask: map", calls, lambda: sum(client.gather(client.map(nothing, range(calls), pure=False))))
        data = array()
        report(
            f"Dask: {ARRAY // 10**6} MB for {USERS} calls (scattered)",
            USERS,
            lambda: client.gather(client.map(length, [client.scatter(data)] * USERS, range(USERS))),
        )


def ray(calls: int) -> None:
    import ray as lib

    lib.init(num_cpus=SLOTS, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        call, measure = lib.remote(nothing), lib.remote(length)
        report("Ray: first call", 1, lambda: lib.get(call.remote(1)))
        report("Ray: a task for each call", calls, lambda: lib.get([call.remote(i) for i in range(calls)]))
        data = lib.put(array())
        report(
            f"Ray: {ARRAY // 10**6} MB for {USERS} calls (put)",
            USERS,
            lambda: lib.get([measure.remote(data, i) for i in range(USERS)]),
        )
    finally:
        lib.shutdown()


def executorlib(calls: int) -> None:
    from executorlib import SingleNodeExecutor

    # One process for each call, and processes that stay: its two ways.
    few = calls // 100
    with SingleNodeExecutor(max_cores=SLOTS) as executor:
        report("executorlib: first call", 1, lambda: executor.submit(nothing, 1).result())
        report("executorlib: a process for each call", few, lambda: all_of(executor.submit, few))
    with SingleNodeExecutor(max_workers=SLOTS, block_allocation=True) as executor:
        report("executorlib: submit, one by one", calls, lambda: all_of(executor.submit, calls))


#: Who takes part, with the package that it needs.
ALL: dict[str, tuple[str, Callable[[int], None]]] = {
    "deskgrid": ("cloudpickle", deskgrid),
    "loky": ("joblib", loky),
    "Dask": ("distributed", dask),
    "Ray": ("ray", ray),
    "executorlib": ("executorlib", executorlib),
}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--calls", type=int, default=10_000)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--only", default=",".join(ALL), help="who takes part, with commas")
    given = words.parse_args()
    os.environ.setdefault("DESKGRID_BINARY", binary())
    for _ in range(given.rounds):
        for name in given.only.split(","):
            needs, run = ALL[name]
            if importlib.util.find_spec(needs) is None:
                print(f"{name}: not installed (pip install {needs})")
                continue
            print(f"-- load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
            run(given.calls)
    summary()


if __name__ == "__main__":
    main()
