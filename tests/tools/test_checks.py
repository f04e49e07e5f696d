"""Plants faults in small trees and asks the checks of tools/ to find them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def check(self, tool, *arguments):
        """Returns (exit status, all that was printed)."""
        run = subprocess.run([sys.executable, "-B", TOOLS / tool, *arguments], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class Layers(Case):
    def setUp(self):
        super().setUp()
        self.write("include/hocket/hocket.h", "#include <stdint.h>\nuint32_t hktZero(void);\n")
        self.write("src/base/result.h", '#include "hocket/hocket.h"\n')
        self.write("src/schedule/step.h", '#include <cstdint>\n#include "base/result.h"\n')

    def layers(self):
        return self.check("check_layers.py", self.root)

    def finds(self, path, text, *words):
        self.write(path, text)
        code, output = self.layers()
        self.assertEqual(code, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_a_tree_in_order_passes(self):
        code, output = self.layers()
        self.assertEqual((code, "2 files of src/ keep the order" in output), (0, True), output)

    def test_upward_include(self):
        self.finds("src/base/log.h", '\n#include "schedule/step.h"\n', "src/base/log.h:2", 'may not include "schedule/step.h"')

    def test_part_of_a_folder(self):
        self.write("src/kernels/a.h", '#include "schedule/step.h"\n')
        self.assertEqual(self.layers()[0], 0)
        self.write("src/schedule/verify.h", "")
        self.finds("src/kernels/b.h", '#include "schedule/verify.h"\n', "src/kernels/b.h:1")

    def test_relative_include(self):
        self.finds("src/base/log.cc", '#include "result.h"\n', '"result.h" is no file below src/')

    def test_unknown_folder(self):
        self.finds("src/misc/a.h", "", "src/misc has no place")

    def test_circle(self):
        self.write("src/base/a.h", '#pragma once\n#include "base/b.h"\n')
        self.finds("src/base/b.h", '#pragma once\n#include "base/a.h"\n', "circle of includes", "src/base/a.h -> src/base/b.h -> src/base/a.h")

    def test_public_header_that_shows_the_inside(self):
        self.finds("include/hocket/hocket.hpp", "#include <base/result.h>\n", "include/hocket/hocket.hpp:1", "base/result.h")

    def test_public_header_that_needs_another_first(self):
        self.finds("include/hocket/hocket.hpp", "inline std::size_t f() { return 0; }\n", "does not compile alone as c++20")

    def test_public_c_header_that_is_cpp(self):
        self.finds("include/hocket/hocket.h", "namespace n {}\n", "does not compile alone as c99")


class Skips(Case):
    XML = """<testsuites><testsuite name="Net">
      <testcase name="v4" status="run" result="completed" classname="Net" />
      <testcase name="v6" status="run" result="skipped" classname="Net"><skipped message="{}" /></testcase>
      {}</testsuite></testsuites>"""

    def skips(self, listed, message="net_test.cc:7&#x0A;no IPv6 here&#x0A;", more=""):
        self.write("results/net.xml", self.XML.format(message, more))
        return self.check("check_skips.py", self.root / "results", self.write("skips.txt", listed))

    def test_equal(self):
        code, output = self.skips("# why\nNet.v6: no IPv6 here\n")
        self.assertEqual((code, output.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"), output)

    def test_unlisted(self):
        code, output = self.skips("")
        self.assertEqual((code, "Net.v6 was skipped ('no IPv6 here') and is not listed" in output), (1, True), output)

    def test_other_reason(self):
        code, output = self.skips("Net.v6: no network\n")
        self.assertEqual((code, "the list says 'no network'" in output), (1, True), output)

    def test_listed_and_not_skipped(self):
        code, output = self.skips("Net.v6: no IPv6 here\nNet.v4: slow\n")
        self.assertEqual((code, "Net.v4 is listed and was not skipped" in output), (1, True), output)

    def test_one_that_depends_on_the_machine(self):
        self.assertEqual(self.skips("?Net.v6: no IPv6 here\n?Net.v4: slow\n")[0], 0)
        self.assertEqual(self.skips("?Net.v6: no network | no IPv6 here\n")[0], 0)
        code, output = self.skips("?Net.v6: no network\n")
        self.assertEqual((code, "the list says 'no network'" in output), (1, True), output)

    def test_failed_case(self):
        code, output = self.skips("Net.v6: no IPv6 here\n", more='<testcase name="x" status="run" classname="Net"><failure/></testcase>')
        self.assertEqual((code, output.splitlines()[-1]), (1, "1 passed, 1 failed, 1 skipped"), output)

    def test_no_results(self):
        (self.root / "empty").mkdir()
        code, output = self.check("check_skips.py", self.root / "empty", self.write("skips.txt", ""))
        self.assertEqual((code, "no GoogleTest XML files" in output), (1, True), output)

    def test_broken_results_and_list(self):
        self.write("broken/a.xml", "<testsuites>")
        self.assertEqual(self.check("check_skips.py", self.root / "broken", self.write("skips.txt", ""))[0], 1)
        self.assertIn("skips.txt:1: expected", self.skips("Net.v6\n")[1])


class Budgets(Case):
    LOG = "Label Time Summary:\nunit      =   1.50 sec*proc (3 tests)\nfault     =  20.00 sec*proc (1 test)\n"

    def budgets(self, text):
        return self.check("check_budgets.py", self.write("log", self.LOG), self.write("budgets.txt", text))

    def test_within(self):
        self.assertEqual(self.budgets("unit 2\nfault 30 # kills\n")[0], 0)

    def test_over(self):
        code, output = self.budgets("unit 1\nfault 30\n")
        self.assertEqual((code, "label 'unit' took 1.5 s, its budget is 1 s" in output), (1, True), output)

    def test_label_without_budget_and_budget_without_tests(self):
        self.assertIn("label 'fault' has tests and no budget", self.budgets("unit 2\n")[1])
        self.assertIn("label 'api' has a budget, but none", self.budgets("unit 2\nfault 30\napi 3\n")[1])

    def test_broken_line(self):
        self.assertIn("budgets.txt:1: expected 'label seconds'", self.budgets("unit two\n")[1])


class Docs(Case):
    """check_docs.py looks at the tree that it stands in: the small tree gets a copy."""

    LIFE = "1. `hktAllReduce` (`src/api/c_api.cc`)\n2. `Engine::run` (`src/engine/engine.cc`), the loop\n"
    EXAMPLE = "int main() {}\n"

    def setUp(self):
        super().setUp()
        subprocess.run(["git", "-C", self.root, "init", "-q"], check=True)
        self.write("tools/check_docs.py", (TOOLS / "check_docs.py").read_text())
        self.write("src/api/c_api.cc", "int hktAllReduce(int x) { return x; }\n")
        self.write("src/engine/engine.cc", "struct Engine { void run(); };\nvoid Engine::run() {}\n")
        self.write("docs/life_of_an_allreduce.md", self.LIFE)
        self.write("examples/all_reduce.cc", self.EXAMPLE)
        self.write("README.md", f"[life](docs/life_of_an_allreduce.md#top)\n```cpp\n{self.EXAMPLE}```\n")

    def docs(self):
        run = subprocess.run([sys.executable, "-B", self.root / "tools/check_docs.py", "--static"], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr

    def finds(self, path, text, words):
        self.write(path, text)
        code, output = self.docs()
        self.assertEqual((code, words in output), (1, True), output)

    def test_true_docs_pass(self):
        self.assertEqual(self.docs()[0], 0, self.docs()[1])

    def test_dead_link(self):
        self.finds("docs/x.md", "see [y](y.md)\n", "docs/x.md: link to 'y.md'")

    def test_function_that_has_gone(self):
        self.finds("src/engine/engine.cc", "struct Engine {};  // run() was here\n", "does not define run")

    def test_file_that_has_gone(self):
        self.finds("docs/life_of_an_allreduce.md", self.LIFE.replace("engine.cc", "loop.cc"), "there is no file src/engine/loop.cc")

    def test_too_many_hops(self):
        life = "".join(f"{i}. `hktAllReduce` (`src/api/c_api.cc`)\n" for i in range(1, 8))
        self.finds("docs/life_of_an_allreduce.md", life, "7 hops; 6 are the promise")

    def test_example_that_drifted(self):
        self.finds("examples/all_reduce.cc", "int main() { return 1; }\n", "none of its C++ blocks")

    HEADER = """#define HKT_ONE 1
/* hktGone() was here */
typedef enum { hktZero = 0 } hktCode_t;
HKT_API hktResult_t hktFirst(int a,
                             int b);
"""
    API = """`HKT_ONE`, `HKT_API`, `hktZero` of `hktCode_t`; `hktFirst` returns an `hktResult_t`.
```c
hktResult_t hktFirst(int a, int b);
```
"""

    def interface(self, header, api, words):
        self.write("include/hocket/hocket.h", header)
        self.finds("docs/api.md", api, words)

    def test_interface_that_is_explained(self):
        self.write("include/hocket/hocket.h", self.HEADER)
        self.write("docs/api.md", self.API)
        self.assertEqual(self.docs()[0], 0, self.docs()[1])

    def test_interface_without_a_page(self):
        self.write("include/hocket/hocket.h", self.HEADER)
        self.assertIn("there is no docs/api.md", self.docs()[1])

    def test_name_that_the_page_lacks(self):
        self.interface(self.HEADER.replace("hktZero = 0", "hktZero = 0, hktOne = 1"), self.API, "does not explain hktOne")
        self.interface(self.HEADER, self.API.replace("`HKT_ONE`, ", ""), "does not explain HKT_ONE")

    def test_name_that_the_page_invents(self):
        self.interface(self.HEADER, self.API + "hktGone\n", "hktGone is not in hocket.h")

    def test_prototype_that_drifted(self):
        self.interface(self.HEADER.replace("int b", "long b"), self.API, "lacks the prototype 'hktResult_t hktFirst(int a, long b)'")


if __name__ == "__main__":
    unittest.main()
