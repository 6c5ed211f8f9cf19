"""The page of all policies: what each answers to the six questions, and a picture of what it does in a small simulated grid. The
pictures are drawn from what `deskgrid-lab simulate --scenario` says; the same scenario for all policies of a kind."""

import json
import pathlib
import subprocess
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

#: Colours that colour-blind people can distinguish as well (after Okabe and Ito), one for each job.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"]
LEFT, WIDTH, ROW = 120, 700, 26

Scene = dict[str, Any]

#: Hosts of several speeds; the owner of the first comes at a bad time, and the third is switched off for a while.
BAG: Scene = {
    "hosts": [2.0, 1.5, 1.0, 1.0, 0.6, 0.25], "start_cost": 10, "owners": [[1, 700, 2000]], "down": [[3, 1000, 2600]], "until": 7200,
    "jobs": [{"tasks": 14, "work": 600}],
}
#: Two users disclose what they may need; what they request is marked above.
DISCLOSED: Scene = {
    "hosts": 2, "frozen": 1, "start_cost": 5, "until": 7200,
    "jobs": [{"tasks": 6, "work": 300, "disclosed": True, "user": "ann"},
             {"at": 60, "tasks": 4, "work": 200, "disclosed": True, "user": "bob"}],
    "requests": [[30, 1, 1], [90, 2, 1], [300, 2, 2], [500, 1, 2], [560, 2, 3], [800, 1, 3]], "drops": [[1200, 1], [1200, 2]],
}
#: Three jobs of ranks, of which the second and the third can use as many hosts as there are.
RANKS: Scene = {
    "hosts": 6, "start_cost": 5, "until": 43200,
    "jobs": [{"width": [4, 4], "work": 2400},
             {"at": 240, "width": [1, 6], "work": 18000, "parallelism": 6, "sigma": 0.3},
             {"at": 480, "width": [1, 6], "work": 4800, "parallelism": 4, "sigma": 0.3}],
}
#: Bags with deadlines; of the first one half of the tasks take twice as long as was said.
BAGS: Scene = {
    "hosts": 3,
    "bags": [{"at": 0, "user": "ann", "deadline": 1300, "tasks": [[300, 300], [300, 650], [300, 300], [300, 650]]},
             {"at": 400, "user": "bob", "deadline": 700, "tasks": [[300, 280]] * 3},
             {"at": 620, "user": "cy", "deadline": 420, "tasks": [[200, 180]] * 3},
             {"at": 900, "user": "dee", "deadline": 1600, "tasks": [[250, 250]] * 3}],
}
#: Each kind of policies: its title, what the scenario is, and which stage tells that a policy is of it.
KINDS = [
    ("Bags of tasks", BAG, "Fourteen tasks of ten minutes (on a host of speed 1) on six hosts of different speeds. The owner of the fastest host "
     "comes after 12 minutes, and the third host is off for a while. A paler bar is an attempt whose result did not count; a dashed "
     "one began while another attempt of the task was there. The number is the task's."),
    ("Deadlines", BAGS, "Four bags with a deadline each come to three equal hosts. Half of the first one's tasks take more than twice what "
     "was estimated. A triangle is a bag that comes, a line of the same colour its deadline; a cross is a bag that is refused."),
    ("Disclosed tasks", DISCLOSED, "Two users disclose six and four tasks, and request some of them (triangles: the task's number). Then both drop the "
     "rest. A thin bar is an attempt that is frozen."),
    ("Several hosts at once", RANKS, "Three jobs on six equal hosts. The first one needs four of them; the others can use one to six. Nothing was learned before, so "
     "predictions of waits are those of the paper, and long."),
]


@dataclass
class Attempt:
    """A bar of a picture: times in seconds."""

    host: int
    job: int
    task: int
    begin: float
    end: float
    number: int = 1
    well: bool = True
    replica: bool = False
    frozen: list[tuple[float, float]] = field(default_factory=list)


def page(deskgrid: pathlib.Path, lab: pathlib.Path, into: pathlib.Path, scratch: pathlib.Path) -> str:
    """Writes the page and its pictures; returns its file."""
    listed = json.loads(_said(deskgrid, "--output", "json", "policy", "list"))["policies"]
    (into / "pictures").mkdir(exist_ok=True)
    lines = ["# Every policy", "", "`submit --policy NAME` chooses one. A policy is one answer to each of six questions; where nothing is said, the answer is the plain one. "
             "[Where tasks go](placement.md) explains the default. The pictures are drawn from what the scheduler does in a simulated grid: the same for all "
             "policies of a section.", ""]
    for title, scene, told in KINDS:
        lines += [f"## {title}", "", told, ""]
        for policy in (policy for policy in listed if _kind(policy) is scene):
            name = policy["name"]
            picture = f"pictures/policy-{name.lower()}.svg"
            drawn, outcome = _picture(lab, name, scene, scratch)
            (into / picture).write_text(drawn)
            lines += [f"### {name}", "", policy["summary"], "", f"*From: {policy['source']}.* {outcome}", ""]
            lines += [f"![What {name} does in this grid]({picture})", "", "| question | answer |", "|---|---|"]
            lines += [f"| {question} | {answer} |" for question, answer in policy["stages"].items()]
            lines += [""]
            if policy["parameters"]:
                lines += ["| parameter | default | meaning |", "|---|---|---|"]
                lines += [f"| `{one['name']}` | {one['default']} | {one['meaning']} |" for one in policy["parameters"]] + [""]
    (into / "policies.md").write_text("\n".join(lines))
    return "policies.md"


def _kind(policy: dict[str, Any]) -> Scene:
    """The scenario for a policy, by what it says of its source and its parameters."""
    source = policy["source"]
    if "Downey" in source:
        return RANKS
    if "Petrou" in source or "xFCFS" in source:
        return DISCLOSED
    return BAGS if "Wozniak" in source else BAG


def _said(program: pathlib.Path, *words: str) -> str:
    return subprocess.run([program, *words], check=True, text=True, stdout=subprocess.PIPE).stdout


def _picture(lab: pathlib.Path, name: str, scene: Scene, scratch: pathlib.Path) -> tuple[str, str]:
    """Runs a scenario under a policy; returns the picture, and what came of it in a sentence."""
    # What is disclosed runs there as if it were requested: on a grid that is refused, and so it is in the simulator.
    plain = {"disclosed": False} if name.startswith("BATCH-") else {}
    asked = {**scene, "policy": name} if "bags" in scene else {**scene, "jobs": [{**job, **plain, "policy": name} for job in scene["jobs"]]}
    if plain:
        asked = {key: value for key, value in asked.items() if key not in ("requests", "drops")}
    file = scratch / f"{name}.json"
    file.write_text(json.dumps(asked))
    answer = json.loads(_said(lab, "--output", "json", "simulate", "--scenario", str(file)))
    if "refused" in answer:
        raise RuntimeError(f"the simulator refuses the scenario of {name}: {answer['refused']}")
    attempts = _of_bags(answer) if "bags" in scene else _of_grid(answer)
    return draw(asked, answer, attempts), _outcome(scene, answer, attempts)


def _outcome(scene: Scene, answer: dict[str, Any], attempts: list[Attempt]) -> str:
    if "bags" in scene:
        of = answer["metrics"]
        return f"Here {of['accepted']} of {of['submitted']} bags were accepted, {of['kept']} of them done in time; attempts killed: {of['killed']}."
    done = max((one.end for one in attempts if one.well), default=0.0)
    if scene is DISCLOSED:
        ends = {(one.job, one.task): one.end for one in attempts if one.well}
        waits = [max(ends.get((job, task), done) - at, 0.0) for at, job, task in scene["requests"]]
        return f"Here a result came {sum(waits) / len(waits) / 60:.1f} minutes after its request, on average of {len(waits)}."
    extra = sum(one.number > 1 for one in attempts)
    copies = f", with {extra} {'attempt' if extra == 1 else 'attempts'} beyond the first of a task" if "owners" in scene else ""
    return f"Here the last result came after {done / 60:.0f} minutes{copies}."


def _of_grid(answer: dict[str, Any]) -> list[Attempt]:
    live: dict[tuple[int, int, int], Attempt] = {}
    ended, still = [], {}
    for at, word, job, task, number, host in answer["trace"]:
        key = (job, task, number)
        if word == "start":
            replica = any(one.job == job and one.task == task for one in live.values())
            live[key] = Attempt(host, job, task, at, at, number, replica=replica)
        elif word == "freeze":
            still[key] = at
        elif word == "thaw":
            live[key].frozen.append((still.pop(key), at))
        elif word != "compute":
            one = live.pop(key)
            one.end, one.well = at, word == "finish"
            if key in still:
                one.frozen.append((still.pop(key), at))
            ended.append(one)
    return ended


def _of_bags(answer: dict[str, Any]) -> list[Attempt]:
    live: dict[tuple[int, int], Attempt] = {}
    ended = []
    for at, word, bag, *rest in answer["trace"]:
        if word == "start":
            live[bag, rest[0]] = Attempt(rest[1], bag + 1, rest[0] + 1, at, at)
        elif word in ("finish", "kill"):
            one = live.pop((bag, rest[0]))
            one.end, one.well = at, word == "finish"
            ended.append(one)
    return ended


def draw(scene: Scene, answer: dict[str, Any], attempts: list[Attempt]) -> str:
    """Draws the bars of all hosts over time as SVG."""
    speeds = scene["hosts"] if isinstance(scene["hosts"], list) else [1.0] * scene["hosts"]
    last = max([one.end for one in attempts] + [bag["at"] + bag["deadline"] for bag in scene.get("bags", [])]) * 1.02
    across = lambda at: LEFT + WIDTH * min(at, last) / last  # noqa: E731
    top = 34 if len(scene.get("jobs", ())) != 1 else 10
    foot = top + ROW * len(speeds)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {foot + 34}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" rx="6" fill="#ffffff" stroke="#bbbbbb"/>']
    for host, speed in enumerate(speeds, 1):
        y = top + ROW * (host - 1)
        named = f"host {host}" + (f", speed {speed:g}" if len(set(speeds)) > 1 else "")
        out.append(f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end" fill="#222222">{named}</text>')
        out.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y + ROW}" y2="{y + ROW}" stroke="#dddddd"/>')
    for host, begin, end in scene.get("down", []):
        out += _stretch(across(begin), across(end), top + ROW * (host - 1), "#777777", 1, "off")
    for one in sorted(attempts, key=lambda one: (one.begin, one.host)):
        out += _bar(one, across, top)
    for host, begin, end in scene.get("owners", []):
        out += _stretch(across(begin), across(end), top + ROW * (host - 1), "#444444", 0.6, "its owner is there")
    out += _marks(scene, answer, across, top, foot)
    step = next(step for step in (60, 120, 300, 600, 1200, 1800, 3600) if last / step <= 12)
    for at in range(0, int(last) + 1, step):
        out.append(f'<line x1="{across(at):.1f}" x2="{across(at):.1f}" y1="{foot}" y2="{foot + 4}" stroke="#555555"/>')
        out.append(f'<text x="{across(at):.1f}" y="{foot + 16}" text-anchor="middle" fill="#222222">{at // 60}</text>')
    out.append(f'<text x="{LEFT + WIDTH}" y="{foot + 29}" text-anchor="end" fill="#222222">minutes</text></svg>')
    return "\n".join(out)


def _stretch(begin: float, end: float, y: int, fill: str, opacity: float, said: str) -> list[str]:
    return [f'<rect x="{begin:.1f}" y="{y + 2}" width="{end - begin:.1f}" height="{ROW - 4}" fill="{fill}" fill-opacity="{opacity}"/>',
            f'<text x="{(begin + end) / 2:.1f}" y="{y + 17}" text-anchor="middle" fill="#ffffff">{said}</text>']


def _bar(one: Attempt, across: Any, top: int) -> list[str]:
    """An attempt, with its task's number; what it was frozen for is a line at the foot."""
    y, colour = top + ROW * (one.host - 1), COLOURS[(one.job - 1) % len(COLOURS)]
    dash = ' stroke-dasharray="3 2"' if one.replica else ""
    fade = 0.9 if one.well else 0.25
    told = escape(f"job {one.job}, task {one.task}, attempt {one.number}: {one.begin:.0f} to {one.end:.0f} s")
    out, at = [], one.begin
    for begin, end in [*one.frozen, (one.end, one.end)]:
        if begin > at:
            out.append(f'<rect x="{across(at):.1f}" y="{y + 4}" width="{max(across(begin) - across(at) - 2.5, 1):.1f}" height="{ROW - 8}" fill="{colour}" '
                       f'fill-opacity="{fade}" stroke="{colour}"{dash}><title>{told}</title></rect>')
        if end > begin:
            out.append(f'<rect x="{across(begin):.1f}" y="{y + ROW - 4}" width="{across(end) - across(begin):.1f}" height="3" fill="{colour}"/>')
        at = end
    middle = (across(one.begin) + across(one.frozen[0][0] if one.frozen and one.frozen[0][0] > one.begin else one.end)) / 2
    out.append(f'<text x="{middle:.1f}" y="{y + 17}" text-anchor="middle" fill="{"#ffffff" if one.well else "#222222"}">{one.task}</text>')
    return out


def _marks(scene: Scene, answer: dict[str, Any], across: Any, top: int, foot: int) -> list[str]:
    """What users do, above the hosts: requests of tasks, bags that come, their deadlines."""
    out = []

    def mark(at: float, job: int, text: str, cross: bool = False) -> None:
        x, colour = across(at), COLOURS[(job - 1) % len(COLOURS)]
        shape = f"M{x - 5:.1f} 20l10 10m0 -10l-10 10" if cross else f"M{x - 5:.1f} 20h10l-5 9z"
        out.append(f'<path d="{shape}" fill="{colour}" stroke="{colour}" stroke-width="{3 if cross else 1}"/>')
        out.append(f'<text x="{x:.1f}" y="15" text-anchor="middle" fill="#222222">{escape(text)}</text>')

    for at, job, task in scene.get("requests", []):
        mark(at, job, str(task))
    for number, bag in enumerate(scene.get("bags", []), 1):
        mark(bag["at"], number, bag["user"], cross=not answer["metrics"]["bags"][number - 1]["accepted"])
        x = across(bag["at"] + bag["deadline"])
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{foot}" stroke="{COLOURS[(number - 1) % len(COLOURS)]}" stroke-width="2"/>')
    if "jobs" in scene and len(scene["jobs"]) > 1 and not scene.get("requests"):
        for number, job in enumerate(scene["jobs"], 1):
            mark(job.get("at", 0), number, f"job {number}")
    return out
