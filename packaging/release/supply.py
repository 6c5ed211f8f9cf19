"""The licences and the bill of materials (CycloneDX 1.5) of what the programs are linked from."""

import json
import pathlib
import re
import uuid
from datetime import UTC, datetime
from typing import Any

from .build import FEATURES, TARGETS, Workshop

#: What the compilers link beside libraries of Rust: name, licence, whose it is, where it comes from. Their versions are the compilers'.
RUNTIMES = [
    ("rust-std", "MIT OR Apache-2.0", "The Rust Project contributors", "https://github.com/rust-lang/rust"),
    ("musl", "MIT", "Copyright (c) 2005-2020 Rich Felker, et al.", "https://musl.libc.org"),
    ("llvm-libunwind", "Apache-2.0 WITH LLVM-exception", "The LLVM Project contributors", "https://github.com/llvm/llvm-project"),
    ("mingw-w64-crt", "ZPL-2.1", "Copyright (c) 2009-2013 by the mingw-w64 project", "https://www.mingw-w64.org"),
    ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", "Copyright (C) Free Software Foundation, Inc.", "https://gcc.gnu.org"),
]
LICENCE = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def write(work: Workshop) -> None:
    """Writes `THIRD-PARTY-LICENCES.txt` and `sbom.cdx.json`."""
    packages = linked(work)
    (work.into / "THIRD-PARTY-LICENCES.txt").write_text(licences(packages))
    (work.into / "sbom.cdx.json").write_text(json.dumps(bill(work, packages), indent=1) + "\n")


def linked(work: Workshop) -> list[dict[str, Any]]:
    """The packages of others that are linked into a program for one of the systems, by name and version."""
    found = {}
    for target in TARGETS.values():
        features = ",".join(f"cli/{feature}" for feature in FEATURES)
        words = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, "--features", features]
        metadata = json.loads(work.said(*words))
        by_id = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        todo = [id for id, package in by_id.items() if package["name"] == "cli" and package["source"] is None]
        seen = set(todo)
        while todo:
            for dependency in nodes[todo.pop()]["deps"]:
                normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if normal and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    todo.append(dependency["pkg"])
        others = (by_id[id] for id in seen if by_id[id]["source"])
        found |= {(package["name"], package["version"]): package for package in others}
    return [found[key] for key in sorted(found)]


def licences(packages: list[dict[str, Any]]) -> str:
    """Every dependency with its licence, and the text of each licence file once, with those that it is of."""
    texts: dict[str, list[str]] = {}
    lines = ["deskgrid is linked from these libraries; their licences follow.\n"]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license']}, {package['repository'] or 'https://crates.io/crates/' + package['name']}")
        place = pathlib.Path(package["manifest_path"]).parent
        for file in sorted(file for file in place.iterdir() if file.is_file() and LICENCE.search(file.name)):
            texts.setdefault(file.read_text(errors="replace").strip(), []).append(name)
    lines.append("\nThe compilers link these with it, in whole or in part; musl and llvm-libunwind on Linux, mingw-w64-crt and libgcc on Windows:\n")
    lines += [f"{name}: {licence}, {whose}, {place}" for name, licence, whose, place in RUNTIMES]
    for text, names in texts.items():
        lines.append(f"\n{'=' * 100}\n{', '.join(dict.fromkeys(names))}\n{'=' * 100}\n\n{text}")
    return "\n".join(lines) + "\n"


def bill(work: Workshop, packages: list[dict[str, Any]]) -> dict[str, Any]:
    """The document of CycloneDX."""
    components = []
    for package in packages:
        url = f"pkg:cargo/{package['name']}@{package['version']}"
        component = {"type": "library", "bom-ref": url, "name": package["name"], "version": package["version"], "purl": url}
        if package["license"]:
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        components.append(component)
    for name, licence, _, place in RUNTIMES:
        reference = {"type": "website", "url": place}
        component = {"type": "library", "bom-ref": f"runtime:{name}", "name": name, "licenses": [{"expression": licence}]}
        components.append(component | {"externalReferences": [reference]})
    named = f"deskgrid {work.version} {work.epoch}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, named)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(work.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": "deskgrid", "name": "deskgrid", "version": work.version},
        },
        "components": components,
    }
