"""The pages as mdBook wants them: in one directory, with links that hold there, and a table of contents. What a page is called and
in which part it stands, `docs/README.md` says, and nothing else does."""

import pathlib
import re
from dataclasses import dataclass, field

#: What is only for the tests: the names of those that hold a sentence.
HELD_BY = re.compile(r"[ \n]?<!-- held by:.*?-->", re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
#: A link that is named by the file that it leads to, which says nothing to whoever reads the site.
BY_FILE = re.compile(r"\[`?[\w./-]+\.md`?\]\((?P<page>[\w-]+\.md)(?P<place>#[^)\s]*)?\)")
ENTRY = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\)")
FENCE = re.compile(r"(?m)^( *)```sh run$")


def published(text: str) -> str:
    """A page as people read it, without what is only for the tests."""
    return FENCE.sub(r"\1```sh", HELD_BY.sub("", text))


class Broken(Exception):
    """A page is not as it should be."""


@dataclass
class Part:
    """A part of the table of contents: a title, and the title and file of each page; two spaces before a title for a page below
    another."""

    title: str
    pages: list[tuple[str, str]] = field(default_factory=list)


def parts(top: pathlib.Path) -> list[Part]:
    """Reads the table of contents."""
    found: list[Part] = []
    for line in (top / "docs" / "README.md").read_text().splitlines():
        if line.startswith("## "):
            found.append(Part(line[3:]))
        elif entry := ENTRY.match(line):
            if not found:
                raise Broken(f"docs/README.md: `{line}` stands in no part")
            found[-1].pages.append((entry["title"], name(top, top / "docs", entry["link"])))
    return found


def name(top: pathlib.Path, place: pathlib.Path, link: str) -> str:
    """The file of the site for a link to a page of the project."""
    target = (place / link).resolve()
    if target == top / "README.md":
        return "first-minutes.md"
    if target == top / "docs" / "README.md":
        return "index.md"
    return target.name.lower() if target.parent == top else target.relative_to(top / "docs").as_posix()


def pages(top: pathlib.Path, into: pathlib.Path) -> list[Part]:
    """Writes every page of the table of contents, and the table's own as the first one; returns the parts."""
    listed = parts(top)
    titles = {page: title for part in listed for title, page in part.pages} | {"index.md": "Documentation"}
    known = set(titles)
    sources = [top / "README.md", *sorted(top.glob("docs/*.md"))]
    sources += [top / f"{stem}.md" for stem in ("ARCHITECTURE", "BENCHMARKS", "CHANGELOG", "CONTRIBUTING", "DECISIONS", "SECURITY")]
    left = []
    for source in sources:
        page = name(top, source.parent, source.name)
        if page not in known:
            left.append(str(source.relative_to(top)))
            continue
        text = published(source.read_text())
        links = {"place": source.parent, "top": top, "known": known}
        in_turn = re.split(r"(?ms)(^ *```.*?^ *```$)", text)
        text = "".join(part if at % 2 else _named(LINK.sub(lambda found: _link(found[1], **links), part), titles)
                       for at, part in enumerate(in_turn))
        (into / page).write_text(text)

    if left:
        raise Broken(f"docs/README.md does not name {', '.join(left)}")
    return listed


def _named(text: str, titles: dict[str, str]) -> str:
    """A text whose links between pages are named by titles, where they were by files."""
    return BY_FILE.sub(lambda found: f"[{titles[found['page']]}]({found['page']}{found['place'] or ''})", text)


def _link(link: str, top: pathlib.Path, place: pathlib.Path, known: set[str]) -> str:
    """A link as it is on the site. What is no page there, such as a source file, is copied beside them."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return link
    path, _, anchor = link.partition("#")
    target = (place / path).resolve()
    if not target.exists():
        raise Broken(f"{place.relative_to(top)}: {link} leads nowhere")
    ending = f"#{anchor}" if anchor else ""
    if target.suffix == ".md":
        page = name(top, place, path)
        if page not in known:
            raise Broken(f"{page} is in no part of docs/README.md, and {place.relative_to(top)} has a link to it")
        return page + ending
    if target == top / "configs":
        return "configs.md" + ending
    if target.suffix == ".png":
        return f"pictures/{target.name}"
    return f"files/{target.relative_to(top).as_posix()}"


def copy_files(top: pathlib.Path, into: pathlib.Path) -> None:
    """Copies pictures, and the files that pages have links to."""
    (into / "pictures").mkdir(exist_ok=True)
    for picture in (top / "docs" / "pictures").glob("*.png"):
        (into / "pictures" / picture.name).write_bytes(picture.read_bytes())
    for page in into.glob("*.md"):
        for link in re.findall(r"\]\(files/([^)\s#]+)", page.read_text()):
            if (top / link).is_file():
                target = into / "files" / link
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((top / link).read_bytes())


def summary(listed: list[Part], into: pathlib.Path) -> None:
    """Writes the table of contents in mdBook's form."""
    lines = ["# Summary\n", "[Documentation](index.md)\n"]
    for part in listed:
        lines += [f"# {part.title}\n", *(f"{title[: len(title) - len(title.lstrip())]}- [{title.strip()}]({page})" for title, page in part.pages), ""]
    (into / "SUMMARY.md").write_text("\n".join(lines))
