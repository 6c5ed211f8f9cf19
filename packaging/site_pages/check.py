"""What must hold of the built site: every link leads to a page and a place in it and is named by words, nothing comes from elsewhere, and
every command and every key of the settings is found by the search."""

import html.parser
import json
import pathlib
import re
import urllib.parse


class _Links(html.parser.HTMLParser):
    """The links of a page, and the places that others can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.by_file: list[str] = []
        self._named: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.places.add(value)
            elif key in ("href", "src") and value:
                (self.links if tag == "a" else self.loaded).append(value)
                if tag == "a" and not re.match(r"[a-z]+:", value):
                    self._named = ""

    def handle_data(self, data: str) -> None:
        if self._named is not None:
            self._named += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._named is not None:
            if re.fullmatch(r"[\w./-]+\.md", self._named.strip()):
                self.by_file.append(self._named.strip())
            self._named = None


def site(into: pathlib.Path, wanted: set[str]) -> list[str]:
    """Returns what is wrong with a site; `wanted` are words that its search has to find."""
    pages = {}
    for file in sorted(into.rglob("*.html")):
        if file.name != "toc.html":
            pages[file] = _Links()
            pages[file].feed(file.read_text())

    wrong = []
    for file, page in pages.items():
        place = file.relative_to(into)
        wrong += [f"{place}: a link is named by a file, `{name}`" for name in page.by_file]
        for link in page.links + page.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    wrong.append(f"{place}: loads {link} from elsewhere")
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            if file.name == "404.html" or parts.path.startswith("/"):
                continue
            if not target.exists():
                wrong.append(f"{place}: {link} leads nowhere")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].places:
                wrong.append(f"{place}: {link}: the page has no such place")

    return wrong + _not_found(into, wanted)


def _not_found(into: pathlib.Path, wanted: set[str]) -> list[str]:
    """The words that the search does not know."""
    index = next(into.glob("searchindex*.js"), None)
    if index is None:
        return ["there is no index for the search"]
    script = index.read_text()
    text = script[script.index("JSON.parse('") + len("JSON.parse('") : script.rindex("')")]
    known = json.loads(re.sub(r"\\(['\\])", r"\1", text))["index"]["documentStore"]["docs"].values()
    words = {word for page in known for word in re.findall(r"[a-z0-9_-]+", f"{page['title']} {page['body']}".lower())}
    return [f"the search does not find `{word}`" for word in sorted(wanted) if word not in words]


def words(source: pathlib.Path, openapi: pathlib.Path) -> set[str]:
    """The words that the search has to find: commands with their flags, keys of the settings, endpoints."""
    found = set()
    for page in source.glob("deskgrid*.md"):
        headings = re.findall(r"(?m)^#+ deskgrid(?:-lab)? (.*)$", page.read_text())
        found |= {word for heading in headings for word in heading.split()}
    found |= set(re.findall(r"(?m)^([a-z_]+) = ", (source / "configs.md").read_text()))
    for path in json.loads(openapi.read_text())["paths"]:
        found |= set(re.findall(r"[a-z]+", path.split("{")[0]))
    return found
