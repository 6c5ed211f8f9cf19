"""A module that imports an installed package."""

import iniconfig


def sections(text: str) -> list[str]:
    return [section.name for section in iniconfig.IniConfig("x.ini", text)]
