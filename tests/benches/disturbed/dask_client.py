"""Runs a bag of tasks on a Dask cluster: dask_client.py ADDRESS WORKERS TASKS SECONDS

Prints `ready` when all workers are there, then submits, and prints `done` when all tasks are done.
"""

import subprocess
import sys


def paced(_, seconds):
    subprocess.run(["paced", seconds], check=True)


if __name__ == "__main__":
    from distributed import Client, wait

    address, workers, tasks, seconds = sys.argv[1:]
    client = Client(address)
    client.wait_for_workers(int(workers))
    client.upload_file(__file__)
    print("ready", flush=True)
    wait(client.map(paced, range(int(tasks)), seconds=seconds, pure=False))
    print("done", flush=True)
