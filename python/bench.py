"""Measures what calls cost: of deskgrid beside joblib's loky, Dask, Ray and executorlib, in one run on
one machine.

    pip install joblib 'dask[distributed]' ray executorlib numpy
    DESKGRID_BINARY=… python python/bench.py [CALLS]

It starts a master and a worker with two slots on this machine, as the tests do. Every number is of
this run; nothing is asserted.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "src"), str(HERE / "tests")]

from world import World, binary  # noqa: E402

from deskgrid import Grid  # noqa: E402

SLOTS = 2
ARRAY = 100_000_000
USERS = 200


def nothing(x: int) -> int:
    return x


def length(data: bytes, x: int) -> int:
    return len(data) + x


def report(what: str, calls: int, work: Callable[[], Any]) -> None:
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    print(f"{what:48} {calls:7} calls {seconds:8.2f} s {calls / seconds:9.0f} calls/s", flush=True)


def sent(world: World) -> int:
    """The bytes of content that the master sent to hosts."""
    import re
    import urllib.request

    with urllib.request.urlopen(f"http://{world.http}/metrics") as answer:
        found = re.search(r'content_sent_bytes_total\{by="master"\} (\d+)', answer.read().decode())
    return int(found[1]) if found else 0


def deskgrid(calls: int) -> None:
    world = World()
    try:
        world.worker("desk-1", slots=SLOTS)
        with Grid(dir=world.user, progress=False) as g:
            report("deskgrid: first call", 1, lambda: g.submit(nothing, 1).result())
            report("deskgrid: map", calls, lambda: sum(g.map(nothing, range(calls))))
            report("deskgrid: submit, one by one", calls, lambda: all_of(g.submit, calls))
            few = calls // 10
            report(
                "deskgrid: a task for each call",
                few,
                lambda: sum(g.map(nothing, range(few), chunksize=1)),
            )
            data = os.urandom(ARRAY)
            before = sent(world)
            report(
                f"deskgrid: {ARRAY // 10**6} MB for {USERS} calls",
                USERS,
                lambda: list(g.map(length, [data] * USERS, range(USERS), chunksize=10)),
            )
            print(f"  … {(sent(world) - before) / 1e6:.0f} MB went to the host")
    finally:
        world.close()


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
    data = os.urandom(ARRAY)
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
        data = os.urandom(ARRAY)
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
        data = lib.put(os.urandom(ARRAY))
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


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    os.environ.setdefault("DESKGRID_BINARY", binary())
    deskgrid(count)
    others = (
        ("loky", "joblib", loky),
        ("Dask", "distributed", dask),
        ("Ray", "ray", ray),
        ("executorlib", "executorlib", executorlib),
    )
    for name, needs, run in others:
        if importlib.util.find_spec(needs) is None:
            print(f"{name}: not installed (pip install {needs})")
        else:
            run(count)
