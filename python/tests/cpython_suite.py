"""CPython's own tests of executors, run against a Grid by a Python that has them::

    python cpython_suite.py DIR

``DIR`` is the directory of a user. Left out is what asks for something else than an executor, a number of
workers (``max_workers``) or that of many calls one has begun at once; the programs that import an
executor by its name from ``concurrent.futures``; and what fails where two calls take more than five
seconds.
:mod:`test_executor`, :mod:`test_errors` and :mod:`test_jobs` have the like of them.
"""

from __future__ import annotations

import importlib
import sys
import time
import unittest
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle

from deskgrid import Env, Grid
from deskgrid._auto import pack_python

LEFT_OUT = {
    "test_max_workers_negative",
    "test_max_workers_too_large",
    "test_hang_gh94440",
    "test_cancel_futures",
    "test_map_timeout",
    "test_interpreter_shutdown",
    "test_submit_after_interpreter_shutdown",
    "test_hang_gh83386",
    "test_hang_issue39205",
}

#: The tests tell short calls from long ones by seconds: a busy machine has so many times as many.
SLOWER = 4


def longer(seconds: float) -> None:
    time.sleep(SLOWER * seconds)


#: Where the tests are: from Python 3.12 on in several modules.
MODULES = ("executor", "test_wait", "test_as_completed", "test_shutdown")
CASES = ("ExecutorTest", "WaitTests", "AsCompletedTests", "ExecutorShutdownTest")


def modules() -> list[ModuleType]:
    package = importlib.import_module("test.test_concurrent_futures")
    if not hasattr(package, "__path__"):
        return [package]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in MODULES]


def cases(user: str) -> list[type[unittest.TestCase]]:
    """The classes of tests, each with an executor that is a Grid."""
    # Hosts do not have these modules.
    for module in modules():
        cloudpickle.register_pickle_by_value(module)
        module.time = SimpleNamespace(sleep=longer, monotonic=time.monotonic)  # type: ignore[attr-defined]
    env = Env.packed(pack_python(Path(sys.executable)))

    class OnAGrid:
        executor_type = Grid
        worker_count = 2

        def setUp(self) -> None:
            super().setUp()  # type: ignore[misc]
            self.executor: Any = Grid(dir=user, progress=False, env=env)

        def tearDown(self) -> None:
            self.executor.shutdown(wait=True)
            self.executor = None
            super().tearDown()  # type: ignore[misc]

    mixins = [getattr(module, name) for module in modules() for name in CASES if hasattr(module, name)]
    # What is None instead of a method is no test.
    without = dict.fromkeys(LEFT_OUT)
    return [type(mixin.__name__, (mixin, OnAGrid, unittest.TestCase), without) for mixin in mixins]


if __name__ == "__main__":
    suite = unittest.TestSuite()
    for one in cases(sys.argv[1]):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(one))
    ran = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not ran.wasSuccessful())
