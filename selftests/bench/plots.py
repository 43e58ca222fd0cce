# SPDX-License-Identifier: GPL-2.0
"""The plots of the report, as SVG. The same figures give the same file."""

import itertools

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

C, RUST, LINE = "#8a8f98", "#c4622d", "#1f5fa8"
# What the patches for C save that were published: instructions a packet, and where they apply.
# socket: 257 -> 231 with UDP; NAT: 7,923 -> 7,401 for the whole packet, without policies; ESP: the
# lock is taken once a packet.
PUBLISHED = "C with the published patches (257 \u2192 231; whole packet 7,923 \u2192 7,401)"
PUBLISHED_ESP = "C with the published patch"
SAVED_SOCKET, SAVED_NAT = 257 - 231, 7923 - 7401
BAR = 0.4
# Inches: of a row, of what is around them all, and the width.
ROW, AROUND, WIDTH = 0.32, 0.9, 11


def saved(row):
    if row["path"] == "socket" and row["traffic"].startswith("UDP") and "no" not in row["traffic"]:
        return SAVED_SOCKET
    if row["path"] == "nat" and "saves" in row:
        return SAVED_NAT
    return None


def label(row):
    key = f"socket {row['key']}" if row["path"] == "socket" else row["key"]
    by = ", pktgen" if row.get("injector") == "pktgen" else ""
    return f"{row['traffic']}, IPv{row['ip']}, {key}{by}"


def axes(rows, legend, *titles):
    """One next to the other, with room for two bars a row, the first row on top; in the legend, as
    many lines."""
    figure, all_axes = pyplot.subplots(
        1, len(titles), sharey=True, squeeze=False, layout="constrained",
        figsize=(WIDTH, AROUND + legend * 0.2 + len(rows) * ROW))
    for ax, title in zip(all_axes[0], titles):
        ax.set_title(title, loc="left", fontweight="bold")
        ax.margins(x=0.15)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    ax = all_axes[0][0]
    ax.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize=8)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    return figure, *all_axes[0]


def beside(ax, end, y, text):
    """Next to a bar that ends there"""
    ax.annotate(text, (end, y), (4, 0), textcoords="offset points", va="center", fontsize=8)


def fewer(c, rust):
    return f"{c:.0f} \u2192 {rust:.0f} ({rust / c - 1:+.0%})"


def pairs(ax, figures, form):
    """Two bars a row, of C and Rust, and what form() makes of them."""
    ax.barh([y - BAR / 2 for y in range(len(figures))], [c for c, _ in figures], BAR, color=C,
            label="C")
    ax.barh([y + BAR / 2 for y in range(len(figures))], [rust for _, rust in figures], BAR,
            color=RUST, label="Rust")
    for y, (c, rust) in enumerate(figures):
        beside(ax, max(c, rust), y, form(c, rust))


def save(figure, ax, path, source):
    """With the legend of what is in ax, each once"""
    bars = dict(zip(*reversed(ax.get_legend_handles_labels())))
    figure.legend(bars.values(), bars.keys(), loc="outside lower left", fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None, "Description": source})
    pyplot.close(figure)


def instructions(rows, path, source):
    figure, ax = axes(rows, 3, "Instructions a packet that the path adds")
    figures = [(row["c"]["median"], row["rust"]["median"]) for row in rows]
    pairs(ax, figures, fewer)
    less = [(y, figures[y][0] - saved(row)) for y, row in enumerate(rows) if saved(row)]
    if less:
        ax.vlines([x for _, x in less], [y - 0.45 for y, _ in less], [y + 0.45 for y, _ in less],
                  color=LINE, linestyles="dashed", label=PUBLISHED)
    save(figure, ax, path, source)


def contention(rows, path, source):
    most = max(row["cpus"] for row in rows)
    rows = [row for row in rows if row["cpus"] == most]
    names = dict.fromkeys(one["object"] for row in rows for impl in ("c", "rust")
                          for one in row["objects"].get(impl, ()))
    colours = dict(zip(names, itertools.cycle(matplotlib.colormaps["tab20"].colors)))
    figure, ax = axes(rows, len(names), f"Writes a packet to cache lines that {most} CPUs share, "
                      "by what they are (C above, Rust below)")
    for number, row in enumerate(rows):
        for y, impl in (number - BAR / 2, "c"), (number + BAR / 2, "rust"):
            end = 0
            for one in row["objects"].get(impl, ()):
                ax.barh(y, one["writes"], BAR * 0.9, left=end, label=one["object"],
                        color=colours[one["object"]])
                end += one["writes"]
            beside(ax, end, y, f"{row['writes'][impl]:.2f}")
    save(figure, ax, path, source)


def locks(rows, path, source):
    figure, under, taken = axes(rows, 3, "Instructions a packet under the lock of the state",
                                "Times a packet that it is taken")
    pairs(under, [(row["c"]["instructions"], row["rust"]["instructions"]) for row in rows], fewer)
    pairs(taken, [(row["c"]["acquisitions"], row["rust"]["acquisitions"]) for row in rows],
          lambda c, rust: f"{c:.3g} \u2192 {rust:.3g}")
    taken.axvline(1, color=LINE, linestyle="dashed", label=PUBLISHED_ESP)
    save(figure, taken, path, source)


def write(data, directory):
    """All plots, of what is in results.json."""
    # Text as text; and nothing that differs from run to run.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench",
                                "font.family": "sans-serif"})
    source = f"{data['command']}, commit {data['commit']}, kernel {data['kernel']}"
    # One for each path: they differ too much for one scale. Keys of sockets differ too little.
    for name in dict.fromkeys(row["path"] for row in data["instructions"]):
        rows = [row for row in data["instructions"]
                if row["path"] == name and (name != "socket" or row["key"] == "mark")]
        instructions(rows, f"{directory}/bench-instructions-{name}.svg", source)
    # Not there without QEMU's plugin
    if data.get("contention"):
        contention(data["contention"], f"{directory}/bench-contention.svg", source)
    if data.get("locks"):
        locks(data["locks"], f"{directory}/bench-locks.svg", source)
