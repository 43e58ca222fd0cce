#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rust-analyzer.py KERNEL_JSON TOP BINDINGS ROOT: complete a rust-project.json.

The kernel's generator knows its own crates and none that an out-of-tree project shares between its
modules. This reads what it wrote, adds ours, and prefixes files that exist in the build root only
with the root's path, so that an editor outside finds them.
"""

import json
import pathlib
import sys


def main():
    kernel_json, top, bindings, root = sys.argv[1:5]
    top = pathlib.Path(top)
    project = json.loads(pathlib.Path(kernel_json).read_text())
    crates = project["crates"]

    def outside(path):
        return root + path if path.startswith("/usr/") else path

    for crate in crates:
        crate["root_module"] = outside(crate["root_module"])
        if "proc_macro_dylib_path" in crate:
            crate["proc_macro_dylib_path"] = outside(crate["proc_macro_dylib_path"])
    if project.get("sysroot"):
        project["sysroot"] = root + project["sysroot"]

    index = {crate["display_name"]: i for i, crate in enumerate(crates)}
    kernel = crates[index["kernel"]]

    def add(name, root_module, deps, env=None, include=()):
        source = {"include_dirs": [str(root_module.parent), *include], "exclude_dirs": []}
        index[name] = len(crates)
        crates.append(
            {
                "display_name": name,
                "root_module": str(root_module),
                "is_workspace_member": True,
                "deps": [{"crate": index[dep], "name": dep} for dep in deps],
                "cfg": kernel["cfg"],
                "edition": "2021",
                "env": {"RUST_MODFILE": name, **(env or {})},
                "source": source,
            }
        )

    basic = ["core", "kernel", "pin_init", "zerocopy", "zerocopy_derive"]
    add(
        "nf_bindings",
        top / "rust/bindings/lib.rs",
        basic,
        {"NFRUST_BINDINGS": bindings},
        [bindings],
    )
    add("logic", top / "rust/logic/src/lib.rs", ["core"])
    add("net", top / "rust/net/lib.rs", [*basic, "nf_bindings", "logic"])
    for main_rs in sorted((top / "rust/modules").glob("*/main.rs")):
        add(main_rs.parent.name + "_rust", main_rs, [*basic, "net", "logic"])
    for sample in sorted((top / "samples").glob("*.rs")):
        add(f"nft_{sample.stem}_rust", sample, [*basic, "net", "logic"])

    (top / "rust-project.json").write_text(json.dumps(project, indent=1, sort_keys=True) + "\n")


main()
