"""The Python peers of the benchmark: HyperQueue and Dask behind one line protocol.

    peers.py hyperqueue-cluster SLOTS     a server and a worker; says where it listens
    peers.py hyperqueue-client DIRECTORY
    peers.py dask-cluster WORKERS         a scheduler and one process for each worker; says where it listens
    peers.py dask-client ADDRESS

Each prints one JSON line when it is ready. A client then answers one JSON line to each line `WHAT COUNT` on its
standard input: {"seconds": [...]}. A cluster ends when its standard input ends.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


def serve(actions):
    """Answers each line `WHAT COUNT` with how long that took."""
    say(ready=True)
    for line in sys.stdin:
        what, count = line.split()
        say(seconds=actions[what](int(count)))


def timed(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def hyperqueue_cluster(slots):
    from hyperqueue import LocalCluster
    from hyperqueue.cluster import WorkerConfig

    with tempfile.TemporaryDirectory() as directory:
        config = WorkerConfig(cores=int(slots)) if int(slots) else None
        with LocalCluster(server_dir=directory, worker_config=config) as cluster:
            say(address=str(cluster.cluster.server_dir))
            sys.stdin.read()


def hyperqueue_client(directory):
    from hyperqueue import Client, Job

    client = Client(directory)

    def bag(count):
        job = Job()
        for _ in range(count):
            job.program(["true"], stdout=None, stderr=None)
        return job

    def run(job, pause_s):
        """The client's own wait looks once a second; that a finished job can be forgotten tells sooner."""
        submitted = client.submit(job)
        given_up = time.monotonic() + 120
        while True:
            try:
                return client.forget(submitted)
            except RuntimeError:
                # Once it said so for ever of a single task.
                if time.monotonic() > given_up:
                    raise
                time.sleep(pause_s)

    def whole_bag(count):
        job = bag(count)
        return [timed(lambda: run(job, 0.01))]

    def one_by_one(count):
        return [timed(lambda: run(bag(1), 0.001)) for _ in range(count)]

    def only_submit(count):
        job = bag(count)
        return [timed(lambda: client.submit(job))]

    serve({"true": whole_bag, "latency": one_by_one, "submit": only_submit})


def nothing(_):
    return None


def spawn_true(_):
    subprocess.run(["true"], check=True)


def dask_cluster(workers):
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=int(workers), threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with cluster:
        say(address=cluster.scheduler_address)
        sys.stdin.read()


def dask_client(address):
    from distributed import Client, wait

    client = Client(address)
    client.upload_file(__file__)

    def bag(function, count):
        futures = client.map(function, range(count), pure=False, batch_size=10_000)
        wait(futures)
        return [f.status for f in futures].count("finished") == count or sys.exit("a task failed")

    def one_by_one(count):
        return [timed(lambda: client.submit(nothing, 0, pure=False).result()) for _ in range(count)]

    held = []

    def only_submit(count):
        held.extend(client.map(nothing, range(count), pure=False))
        client.run_on_scheduler(nothing, 0)

    serve({
        "true": lambda count: [timed(lambda: bag(spawn_true, count))],
        "noop": lambda count: [timed(lambda: bag(nothing, count))],
        "latency": one_by_one,
        "submit": lambda count: [timed(lambda: only_submit(count))],
    })


if __name__ == "__main__":
    os.environ["RUST_BACKTRACE"] = "0"
    globals()[sys.argv[1].replace("-", "_")](sys.argv[2])
