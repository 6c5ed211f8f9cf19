"""FCFS on exported profiles, in SimGrid: what tests/all/simgrid.rs compares our simulator with.

Usage: fcfs.py DIR START_S TASKS FLOPS

Prints, one on a line, how many seconds after START_S each task was done. As in Kondo et al. (2004): a task takes 40 s of
its host's time and then its work; a host that goes down loses it, which is noticed when the next of the heartbeats, one a
minute since the task's start, is missing, or when the host is back before that. Hosts are up and have speed as SimGrid
makes of the profiles; the dates in the files only say when it is worth to look.
"""

import math
import pathlib
import sys

from simgrid import Actor, Engine, Host, HostFailureException, this_actor

START_COST_S = 40.0
HEARTBEAT_S = 60.0
# Whoever looks comes so much too late, rather than too early.
AFTER_S = 1e-6
# Profiles give suspended hosts less than this.
SUSPENDED = 1e-6

directory, start_s, tasks, flops = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])


class Grid:
    """What a master knows."""

    def __init__(self):
        self.up = set()
        self.ready = {}  # host: since when
        self.busy = {}  # host: since when
        self.lost = {}  # host: when the loss of its task is noticed
        self.waiting = 0
        self.done = []

    def look(self, host):
        """A host that is up and idle is ready as long as its processor gives anything."""
        usable = host in self.up and host not in self.busy and Host.by_name(host).available_speed > SUSPENDED
        if usable:
            self.ready.setdefault(host, Engine.clock)
        else:
            self.ready.pop(host, None)

    def dispatch(self):
        while self.waiting and self.ready:
            host = min(self.ready, key=lambda h: (self.ready[h], ORDER[h]))
            del self.ready[host]
            self.waiting -= 1
            self.busy[host] = Engine.clock
            Actor.create("task", Host.by_name(host), task, host)

    def notice(self, host):
        """The loss of a host's task is known: the task waits again."""
        if self.lost.pop(host, None) is not None:
            self.waiting += 1
            self.dispatch()


def task(host):
    this_actor.sleep_for(START_COST_S)
    this_actor.execute(flops)
    grid.done.append(Engine.clock - start_s)
    del grid.busy[host]
    if len(grid.done) == tasks:
        print("\n".join(repr(done) for done in grid.done))
        Actor.kill_all()
    grid.look(host)
    grid.dispatch()


def presence(host):
    """Lives while its host is up."""
    Actor.self().daemonize()
    this_actor.on_exit(lambda failed: went_down(host))
    grid.up.add(host)
    grid.notice(host)
    grid.look(host)
    grid.dispatch()
    this_actor.suspend()


def went_down(host):
    grid.up.discard(host)
    grid.ready.pop(host, None)
    since = grid.busy.pop(host, None)
    if since is not None:
        beats = math.floor((Engine.clock - since) / HEARTBEAT_S) + 1
        grid.lost[host] = since + beats * HEARTBEAT_S


def watch(host, dates):
    """Looks at a host whenever its profiles say that something changes."""
    for date in dates:
        # What happens to the host and its actors at this date comes first.
        this_actor.sleep_until(date + AFTER_S)
        if host in grid.lost:
            Actor.create("heartbeat", Host.by_name("master"), miss, host, grid.lost[host])
        if host not in grid.up:
            try:
                Actor.create("presence", Host.by_name(host), presence, host)
            except HostFailureException:
                pass  # It is still down.
        grid.look(host)
        grid.dispatch()


def miss(host, at):
    this_actor.sleep_until(at)
    if grid.lost.get(host) == at:
        grid.notice(host)


def submit():
    this_actor.sleep_until(start_s + 2 * AFTER_S)
    grid.waiting = tasks
    grid.dispatch()


def dates(name):
    return {float(line.split()[0]) for line in (directory / name).read_text().splitlines()}


engine = Engine(["fcfs", "--log=root.thresh:critical", "--cfg=surf/precision:1e-9", "--cfg=maxmin/precision:1e-9"])
platform = (directory / "platform.xml").read_text()
with_master = platform.replace("</zone>", '<host id="master" speed="1Gf"/>\n  </zone>')
(directory / "with-master.xml").write_text(with_master)
engine.load_platform(str(directory / "with-master.xml"))
grid = Grid()
names = [line.split('"')[1] for line in platform.splitlines() if line.strip().startswith("<host ")]
ORDER = {name: place for place, name in enumerate(names)}
for place, name in enumerate(names):
    changes = sorted(dates(f"host{place}.state") | dates(f"host{place}.speed"))
    Actor.create("watch", Host.by_name("master"), watch, name, changes)
Actor.create("submit", Host.by_name("master"), submit)
engine.run()
