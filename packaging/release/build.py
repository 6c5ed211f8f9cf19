"""Builds the programs of each system, the same bytes for the same commit wherever the clone lies."""

import hashlib
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tomllib

#: The systems, with the compiler's name for each.
TARGETS = {
    "linux-x86_64": "x86_64-unknown-linux-musl",
    "linux-aarch64": "aarch64-unknown-linux-musl",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-aarch64": "aarch64-apple-darwin",
    "windows-x86_64": "x86_64-pc-windows-gnu",
}
#: The libraries of macOS as far as the worker names them, written by ourselves: Apple's own may not be passed on.
SDK = pathlib.Path("packaging") / "macos" / "sdk"
MINGW = "x86_64-w64-mingw32-gcc"
#: What the program for users and masters is built with beside the default; the bill of materials has it, too.
FEATURES = ("s3",)
#: The profile of the program that PCs get which only work (`Cargo.toml`).
SMALL = "worker"
#: What a program for PCs that only work has at most, in bytes: as it is, and packed by xz.
LARGEST, LARGEST_PACKED = 12_000_000, 5_000_000
#: The names of files that `./release` writes, with the version in them, and of those that have none.
VERSIONED = re.compile(r"deskgrid(?:-worker)?[-_](\d.*?)(?:-(?:linux|macos|windows)-.*|_(?:amd64|arm64)|-1\.(?:x86_64|aarch64)|-py3-.*)?\.(?:deb|rpm|msi|zip|whl|tar\.[gx]z|tar)")
UNVERSIONED = ("THIRD-PARTY-LICENCES.txt", "sbom.cdx.json")


class Failed(Exception):
    """A step did not work."""


class Missing(Exception):
    """A tool is not there, and what needs it is left out."""


class Workshop:
    """The clone, the commit's time and version, and the directory that is written to."""

    def __init__(self, top: pathlib.Path, into: pathlib.Path) -> None:
        self.top, self.into = top, into
        self.version = tomllib.loads((top / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or self.said("git", "log", "-1", "--format=%ct"))
        # Programs are looked for in the clone, whatever directory the shell names for other builds.
        os.environ["CARGO_TARGET_DIR"] = str(top / "target")
        self.scratch = top / "target" / "release-parts"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        into.mkdir(parents=True, exist_ok=True)
        remove_older(into, self.version)
        if self.said("git", "status", "--porcelain"):
            print("note: the clone has changes that are in no commit", file=sys.stderr)
        self._documents: pathlib.Path | None = None

    def programs(self, name: str, worker_only: bool) -> dict[str, pathlib.Path]:
        """Builds the programs of a system, stripped."""
        target = TARGETS[name]
        tool = self._tool(name)
        self.run("rustup", "target", "add", target)
        made = {}
        if not worker_only:
            # Storage in buckets is for masters, which nobody has tried on macOS.
            features = [] if name.startswith("macos") else ["--features", ",".join(FEATURES)]
            self._cargo(tool, "--release", "--target", target, "-p", "cli", "--bin", "deskgrid", *features)
            made["deskgrid"] = self._output(target, "release", "deskgrid")
        small = {"deskgrid-worker": "worker-only"}
        if name.startswith("windows"):
            small["deskgrid-watch"] = "watcher"
        bins = [word for program in small for word in ("--bin", program)]
        features = ["--no-default-features", "--features", ",".join(small.values())]
        self._cargo(tool, "--profile", SMALL, "--target", target, "-p", "cli", *bins, *features)
        made |= {program: self._output(target, SMALL, program) for program in small}
        return made

    def documents(self) -> pathlib.Path:
        """The man pages, completions and service files, made by a program that is built for this machine."""
        if self._documents is None:
            self.run("cargo", "build", "--locked", "-p", "packaging")
            into = self.scratch / "documents"
            self.run(self.top / "target" / "debug" / "deskgrid-documents", into)
            self._documents = into
        return self._documents

    def sums(self) -> None:
        """Writes `SHA256SUMS` of what is shipped of this version, and of nothing else that lies in the directory."""
        shipped = lambda name: name in UNVERSIONED or version_of(name) == self.version  # noqa: E731
        files = sorted(file for file in self.into.iterdir() if file.is_file() and shipped(file.name))
        lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (self.into / "SHA256SUMS").write_text("".join(lines))

    def run(self, *words: object, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None) -> None:
        """Runs a command, which must succeed."""
        print("==", *words, flush=True)
        done = subprocess.run([str(word) for word in words], env=env, cwd=cwd or self.top)
        if done.returncode:
            raise Failed(f"`{words[0]} {words[1] if len(words) > 1 else ''}` ended with {done.returncode}")

    def said(self, *words: str) -> str:
        """The output of a command, which must succeed."""
        return subprocess.run(words, cwd=self.top, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    def _tool(self, name: str) -> list[str]:
        """The command that builds for a system: cargo, or cargo with a C compiler for that system."""
        if name.startswith("windows"):
            if not shutil.which(MINGW):
                raise Missing(f"there is no {MINGW} (Debian: gcc-mingw-w64-x86-64-win32)")
            return ["cargo", "build"]

        return [str(cross_tools(self.top) / "cargo-zigbuild"), "zigbuild"]

    def _cargo(self, tool: list[str], *words: str) -> None:
        env = self._env(any("linux" in word for word in words))
        if any(word.endswith("apple-darwin") for word in words):
            env["SDKROOT"] = str(self.top / SDK)
        self.run(*tool, "--locked", *words, env=env)

    def _env(self, linux: bool) -> dict[str, str]:
        """The environment of a build: no path of this machine gets into a program."""
        home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
        here = [(self.top, "/deskgrid"), (home / "registry" / "src", "/cargo"), (home, "/cargo")]
        tools = self.top / "target" / "tools" / "zig" / "bin"
        c = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in here)
        flags = [f"--remap-path-prefix={path}={name}" for path, name in reversed(here)]
        if linux:
            # What the environment says takes the place of the project's own flags.
            config = tomllib.loads((self.top / ".cargo" / "config.toml").read_text())
            flags += config["target"]['cfg(target_os = "linux")']["rustflags"]
        return {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
            "CARGO_INCREMENTAL": "0",
            "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER": MINGW,
            "CFLAGS": c,
            "SOURCE_DATE_EPOCH": str(self.epoch),
            "LC_ALL": "C",
            "TZ": "UTC",
        }

    def _output(self, target: str, profile: str, program: str) -> pathlib.Path:
        name = program + (".exe" if "windows" in target else "")
        built = self.top / "target" / target / profile / name
        content = built.read_bytes()
        if "linux" in target and not is_static(content):
            raise Failed(f"{built} is not static: it asks for a loader of libraries")
        if program == "deskgrid-worker":
            check_size(built, content)
        return built


def cross_tools(top: pathlib.Path) -> pathlib.Path:
    """The directory of the compiler and linker for other systems, fetched once."""
    tools = top / "target" / "tools" / "zig"
    wanted = top / "packaging" / "requirements.txt"
    stamp = tools / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        shutil.rmtree(tools, ignore_errors=True)
        pip = [tools / "bin" / "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", wanted]
        for words in ([sys.executable, "-m", "venv", tools], pip):
            if subprocess.run([str(word) for word in words]).returncode:
                raise Failed(f"the cross compiler cannot be fetched: `{words[0]}` failed")
        shutil.copy(wanted, stamp)
    return tools / "bin"


def version_of(name: str) -> str | None:
    """The version in the name of a file that `./release` writes; None for other files."""
    found = VERSIONED.fullmatch(name)
    return found[1] if found else None


def remove_older(into: pathlib.Path, version: str) -> None:
    """Removes what earlier runs wrote of other versions: `deskgrid package` would not know which one is wanted."""
    for file in sorted(into.iterdir()):
        if file.is_file() and version_of(file.name) not in (None, version):
            print(f"== removing {file.name}, which is not of version {version}", flush=True)
            file.unlink()


def is_static(content: bytes) -> bool:
    """Whether a program of Linux (ELF, 64 bits, little-endian) runs without a loader of shared libraries."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise Failed("a program for Linux is no ELF file of 64 bits")
    table, = struct.unpack_from("<Q", content, 0x20)
    size, count = struct.unpack_from("<HH", content, 0x36)
    interpreter = 3  # PT_INTERP
    return all(struct.unpack_from("<I", content, table + at * size)[0] != interpreter for at in range(count))


def check_size(built: pathlib.Path, content: bytes) -> None:
    """Refuses a program for PCs that only work that is too large."""
    sizes = [("", len(content), LARGEST)]
    if len(content) <= LARGEST:
        sizes.append((" packed", len(lzma.compress(content, preset=9)), LARGEST_PACKED))
    for how, size, limit in sizes:
        if size > limit:
            raise Failed(f"{built} has {size / 1e6:.1f} MB{how}, more than {limit / 1e6:g} MB: see what came into the worker (cargo tree -p cli)")
