"""The licences and the bill of materials name everything that is shipped."""

import json
import pathlib
import subprocess
import unittest
from types import SimpleNamespace

from release import supply

TOP = pathlib.Path(__file__).resolve().parents[2]


class Supply(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        def said(*words: str) -> str:
            return subprocess.run(words, cwd=TOP, check=True, text=True, stdout=subprocess.PIPE).stdout

        cls.work = SimpleNamespace(said=said, version="1.2.3", epoch=0)
        cls.packages = supply.linked(cls.work)

    def test_libraries_of_features_that_are_shipped_are_listed(self) -> None:
        self.assertIn("object_store", [package["name"] for package in self.packages])
        self.assertRegex(supply.licences(self.packages), r"(?m)^object_store \d")

    def test_what_the_compilers_link_is_named_with_its_licence(self) -> None:
        text = supply.licences(self.packages)
        bill = supply.bill(self.work, self.packages)
        named = {component["name"]: component["licenses"] for component in bill["components"] if "purl" not in component}
        for runtime in ("rust-std", "musl", "mingw-w64-crt"):
            self.assertRegex(text, f"(?m)^{runtime}: ")
            self.assertIn(runtime, named)
        self.assertEqual(named["musl"], [{"expression": "MIT"}])

    def test_the_bill_names_each_component_once(self) -> None:
        bill = json.loads(json.dumps(supply.bill(self.work, self.packages)))
        names = [component["bom-ref"] for component in bill["components"]]
        self.assertEqual(len(names), len(set(names)))
