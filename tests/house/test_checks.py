"""The checks of scripts/ find what they are for, in small trees made for it, and accept what is right."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import check_includes
import check_ptxas
import check_text
import readme_table


def tree_of(files: dict[str, str]) -> Path:
    """A folder of these files outside any repository."""
    root = Path(tempfile.mkdtemp(prefix="anymask-house-"))
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class Includes(unittest.TestCase):
    def found(self, name: str, line: str) -> list[str]:
        return check_includes.problems(tree_of({name: f"// A file.\n{line}\n"}))

    def test_down_is_right(self) -> None:
        for name, line in [
            ("src/plan/a.cc", '#include "mask/mask.h"'),
            ("src/cpu/a.cc", '#include "hwy/highway.h"'),
            ("src/cpu/a.cc", '#include "cpu/simd.h"'),
            ("src/api/a.cc", "#include <dlpack/dlpack.h>"),
            ("src/dispatch/a.cc", '#include "backend/backend.h"'),
            ("cli/a.cc", "#include <anymask/anymask.h>"),
            ("tests/mask/a.cc", '#include "mask/mask.h"'),
        ]:
            self.assertEqual(self.found(name, line), [], (name, line))

    def test_up_and_sideways_are_found(self) -> None:
        for name, line in [
            ("src/mask/a.cc", '#include "plan/builder.h"'),
            ("src/core/a.cc", '#include "mask/mask.h"'),
            ("src/cpu/a.cc", '#include "reference/reference.h"'),
            ("src/plan/a.cc", '#include "backend/backend.h"'),
            ("src/plan/a.cc", '  #  include "cpu/simd.h"'),
            ("src/plan/a.cc", "#include <hwy/highway.h>"),
            ("src/core/a.cc", "#include <dlpack/dlpack.h>"),
            ("src/cpu/a.cc", "#include <anymask/anymask.h>"),
            ("src/api/a.cc", "#include <nlohmann/json.hpp>"),
            ("cli/a.cc", '#include "mask/mask.h"'),
            ("src/extra/a.cc", ""),
        ]:
            self.assertEqual(len(self.found(name, line)), 1, (name, line))


class Ptxas(unittest.TestCase):
    LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_90a'
ptxas info    : Function properties for kernel
    {} bytes stack frame, {} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""

    def test_logs(self) -> None:
        self.assertEqual(check_ptxas.problems("a", self.LOG.format(0, 0)), [])
        self.assertEqual(check_ptxas.problems("a", "ptxas info    : 0 bytes gmem"), [])
        spills = check_ptxas.problems("a", self.LOG.format(8, 4))
        self.assertEqual(spills, ["a: kernel (sm_90a): 8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads"])
        self.assertEqual(len(check_ptxas.problems("a", "")), 1)
        serialised = self.LOG.format(0, 0) + "ptxas info    : (C7510) Potential Performance Loss: serialized"
        self.assertEqual(len(check_ptxas.problems("a", serialised)), 1)

    def test_a_build_keeps_no_object_that_spills(self) -> None:
        root = tree_of({"good": self.LOG.format(0, 0), "bad": self.LOG.format(8, 8)})
        for name, status in (("good", 0), ("bad", 1)):
            command = ["sh", "-c", f"cat {root / name} >&2; touch $2", "sh", "-o", str(root / "object")]
            self.assertEqual(check_ptxas.main(["--compile", *command]), status)
            self.assertEqual((root / "object").exists(), status == 0)
        self.assertEqual(check_ptxas.main(["--compile", "sh", "-c", "exit 3"]), 3)


class Text(unittest.TestCase):
    def test_clean(self) -> None:
        clean = tree_of({
            "src/core/a.h": "// What a is.\nint a;\n",
            "src/core/a.cc": '#include "core/a.h"\n',
            "tests/core/a_test.cc": '#include "core/a.h"\n',
            "b.py": '#!/usr/bin/env python3\n"""B."""\n',
            "c.md": "see docs/\n",
        })
        self.assertEqual(check_text.problems(clean), [])

    def test_each_offence(self) -> None:
        for name, text in [
            ("a.h", "int a;\n"),
            ("a.cc", '#include "b.h"\n'),
            ("a.h", "// " + "TO" + "DO: more\n"),
            ("a.md", "in /ho" + "me/someone/anymask\n"),
            ("a.md", "blank \n"),
            ("a.py", "import os\n"),
        ]:
            self.assertEqual(len(check_text.problems(tree_of({name: text}))), 1, (name, text))


class ReadmeTable(unittest.TestCase):
    def line(self, who: str, ms: float, case: str = "causal-s4096-h8-d128") -> str:
        return json.dumps({
            "suite": "forward", "case": case, "who": who, "backend": "cpu", "direction": "fwd", "dtype": "float32",
            "ms": ms, "spread": 0.01, "tflops": 0.1, "share": 0.8, "peak": 0.125, "device": "a processor",
            "versions": "anymask 0.1.0", "commit": "abc", "date": "2026-01-01T00:00:00Z",
        }) + "\n"

    def test_rows_come_from_the_results(self) -> None:
        alone = self.line("anymask", 3)
        beside = self.line("anymask", 2) + self.line("a peer", 6) + self.line("b peer", 5)
        hidden = self.line("anymask", 7, case="full-s2048-h8-d64") + self.line("a peer", 7, case="full-s2048-h8-d64")
        root = tree_of({"cpu.json": alone + hidden, "peers.json": beside})
        table = readme_table.tables(readme_table.load(root))
        self.assertIn("| `causal-s4096-h8-d128` | forward | float32 | 2 | 100 | 80% | b peer, 2.5x |", table)
        self.assertEqual(table.count("\n| `"), 1)

    def test_reports_come_first_and_parts_not_built_are_left_out(self) -> None:
        common = {"suite": "report-topk", "who": "anymask", "dtype": "float16", "tflops": None, "share": None,
                  "device": "a card", "versions": "anymask 0.1.0", "commit": "abc", "date": "2026-01-01T00:00:00Z"}
        built = json.dumps({**common, "case": "(b,h) none window 256", "direction": "total", "ms": 2.5}) + "\n"
        not_built = json.dumps({**common, "case": "(b,1) none window 256", "direction": "total", "ms": None}) + "\n"
        root = tree_of({"a.json": self.line("anymask", 3), "reports.json": built + not_built})
        table = readme_table.tables(readme_table.load(root))
        self.assertIn("| `(b,h) none window 256` | mask and forward | float16 | 2.5 |", table)
        self.assertNotIn("(b,1)", table)
        self.assertLess(table.index("a card"), table.index("a processor"))

    def test_without_results_it_says_how_to_make_them(self) -> None:
        self.assertIn("make bench", readme_table.tables([]))

    def test_only_what_stands_between_the_markers_changes(self) -> None:
        text = f"a\n{readme_table.BEGIN}\nold\n{readme_table.END}\nb\n"
        self.assertEqual(readme_table.replaced(text, "new\n"), f"a\n{readme_table.BEGIN}\nnew\n{readme_table.END}\nb\n")


if __name__ == "__main__":
    unittest.main()
