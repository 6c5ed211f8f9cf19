"""Pages that are made from the programs and files themselves: every command with its help, the settings, the API's document, and the
Python library's docstrings."""

import ast
import json
import pathlib
import re
import subprocess
from typing import Any

BELOW = re.compile(r"(?m)^  ([a-z][a-z-]*)(?:  |$)")


def commands(program: pathlib.Path, into: pathlib.Path) -> list[tuple[str, str]]:
    """Writes a page for each command of a program, with the help of all below it; returns their titles and files."""
    name = program.name
    written = []
    for word in _below(_help(program)):
        page = f"{name}-{word}.md"
        (into / page).write_text("\n".join(_command(program, [word])))
        written.append((f"{name} {word}", page))
    return written


def _command(program: pathlib.Path, words: list[str]) -> list[str]:
    text = _help(program, *words)
    title = " ".join([program.name, *words])
    lines = [f"{'#' * min(len(words), 4)} {title}", "", "```text", text.rstrip(), "```", ""]
    for word in _below(text):
        lines += _command(program, [*words, word])
    return lines


def _help(program: pathlib.Path, *words: str) -> str:
    ran = subprocess.run([program, *words, "--help"], check=True, text=True, stdout=subprocess.PIPE, env={"COLUMNS": "100", "PATH": "/usr/bin"})
    return ran.stdout


def _below(text: str) -> list[str]:
    """The commands that a help lists."""
    _, found, rest = text.partition("\nCommands:\n")
    return [word for word in BELOW.findall(rest.split("\n\n")[0]) if word != "help"] if found else []


def settings(top: pathlib.Path, into: pathlib.Path) -> str:
    """Writes the page of all shipped configurations, with a heading for each table; returns its file."""
    lines = ["# Settings", "", "Every key with its meaning, its unit and its default. `deskgrid master config` and `deskgrid worker config` print the first two.", ""]
    for file in sorted((top / "configs").glob("*.toml"), key=lambda file: (file.stem not in ("master", "worker"), file.stem)):
        lines += [f"## {file.name}", ""]
        block: list[str] = []
        for line in [*file.read_text().splitlines(), None]:
            table = re.match(r"#? ?\[+([\w.]+)\]+$", line or "")
            if line is None or table:
                lines += ["```toml", "\n".join(block).strip("\n"), "```", ""] if "".join(block).strip() else []
                block = []
            if table:
                lines += [f"### {file.stem}: {table[1]}", ""]
            block.append(line or "")
    (into / "configs.md").write_text("\n".join(lines))
    return "configs.md"


def api(top: pathlib.Path, into: pathlib.Path) -> str:
    """Writes the page of the API's endpoints and of the fields of its documents; returns its file."""
    document = json.loads((top / "docs" / "openapi.json").read_text())
    lines = ["# Endpoints and documents of the API", "", f"{document['info']['description']} Programs read [openapi.json](openapi.json), from which this page is made.", ""]
    lines += ["## Endpoints", ""]
    for path, methods in document["paths"].items():
        for method, does in methods.items():
            lines += [f"### {method.upper()} {path}", "", does.get("summary", ""), ""]
            lines += _table(["parameter", "in", "type", "meaning"], [
                [f"`{p['name']}`", p["in"], _type(p["schema"]), p["schema"].get("description", p.get("description", ""))] for p in does.get("parameters", [])])
            for kind, body in does.get("requestBody", {}).get("content", {}).items():
                lines += [f"Body: `{kind}`: {_type(body.get('schema', {}))}.", ""]
            for code, answer in does["responses"].items():
                for kind, body in answer.get("content", {}).items():
                    lines += [f"Answer {code}: `{kind}`: {_type(body.get('schema', {}))}.", ""]
    lines += ["## Documents", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        required = schema.get("required", [])
        lines += _table(["field", "type", "meaning"], [
            [f"`{key}`" + ("" if key in required else " (may be missing)"), _type(field), field.get("description", "")]
            for key, field in schema.get("properties", {}).items()])
        for one in schema.get("oneOf", []):
            lines.append(f"- {_type(one)}: {one['description']}" if one.get("description") else f"- {_type(one)}")
        lines.append("")
    (into / "api-reference.md").write_text("\n".join(lines))
    (into / "openapi.json").write_bytes((top / "docs" / "openapi.json").read_bytes())
    return "api-reference.md"


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    cells = [[cell.replace("\n", " ").replace("|", "\\|") for cell in row] for row in rows]
    return [" | ".join(["", *row, ""]).strip() for row in [heads, ["---"] * len(heads), *cells]] + [""]


def _type(schema: Any) -> str:
    """A schema in a few words, with links to the documents that it names."""
    if schema is True or not schema:
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for word, between in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " with ")):
        if word in schema:
            return between.join(dict.fromkeys(_type(one) for one in schema[word]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kind = schema.get("type", "object")
    kinds = [kind] if isinstance(kind, str) else kind
    if "array" in kinds:
        kinds = [f"array of {_type(schema.get('items', {}))}" if kind == "array" else kind for kind in kinds]
    if kinds == ["object"] and schema.get("properties"):
        return "object with " + ", ".join(f"`{key}`" for key in schema["properties"])
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return " or ".join(kinds)


def python(top: pathlib.Path, into: pathlib.Path) -> str:
    """Writes the page of what `import deskgrid` offers, from the docstrings; returns its file. Nothing of it is imported."""
    source = top / "python" / "src" / "deskgrid"
    names = _exported(source / "__init__.py")
    lines = ["# The Python library, name by name", "", "What `import deskgrid` offers, made from its docstrings. [The tutorial](python.md) shows how it is used.", ""]
    for name, module in sorted(names.items(), key=lambda pair: pair[0].lower()):
        tree = ast.parse((source / f"{module}.py").read_text())
        defined = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
        if name == module:
            lines += [f"## {name}", "", ast.get_docstring(tree) or "", ""]
            found = [_described(node, f"{name}.") for node in defined if not node.name.startswith("_") and ast.get_docstring(node)]
        else:
            found = [_described(node, "") for node in defined if node.name == name]
        if not found:
            raise LookupError(f"python/src/deskgrid/{module}.py describes no `{name}`")
        lines += [line for described in found for line in described]
    (into / "python-reference.md").write_text("\n".join(lines))
    return "python-reference.md"


def _exported(init: pathlib.Path) -> dict[str, str]:
    """The public names of the package, each with the module that it comes from."""
    found = {}
    for node in ast.walk(ast.parse(init.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {(one.asname or one.name): node.module or one.name for one in node.names if not one.name.startswith("_")}
    return found


def _described(node: Any, owner: str) -> list[str]:
    doc = ast.get_docstring(node) or ""
    level = "###" if owner else "##"
    lines = [f"{level} {owner}{node.name}", ""]
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        lines += ["```python", f"class {node.name}({bases})" if bases else f"class {node.name}", "```", "", doc, ""]
        for below in node.body:
            if isinstance(below, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(below) and (not below.name.startswith("_") or below.name == "__init__"):
                lines += _described(below, f"{node.name}.")
        return lines
    arguments = ast.unparse(node.args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return [*lines, "```python", f"{word} {node.name}({arguments}){result}", "```", "", doc, ""]
