# SPDX-License-Identifier: GPL-2.0
"""The plots of the report, as SVG: written by hand, so that nothing has to be installed, and the
same figures give the same file."""

from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP = 900, 300, 150, 11, 9
C, RUST, LINE = "#8a8f98", "#c4622d", "#1f5fa8"
COLOURS = ("#c4622d", "#1f5fa8", "#3b8f5a", "#8d5aa8", "#c9a227", "#4aa6b5", "#b0506b", "#6b7280")
# What the patches for C save that were published: instructions a packet, and where they apply.
# socket: 257 -> 231 with UDP; NAT: 7,923 -> 7,401 for the whole packet, without policies.
PUBLISHED = "C with the published patches (257 \u2192 231; whole packet 7,923 \u2192 7,401)"
SAVED_SOCKET, SAVED_NAT = 257 - 231, 7923 - 7401


def saved(row):
    if row["path"] == "socket" and row["traffic"].startswith("UDP") and "no" not in row["traffic"]:
        return SAVED_SOCKET
    if row["path"] == "nat" and "saves" in row:
        return SAVED_NAT
    return None


class Svg:
    def __init__(self, height):
        self.height, self.parts = height, []

    def rect(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
                          f' fill="{colour}"/>')

    def line(self, x1, y1, x2, y2, colour, dashes=""):
        dashes = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}" stroke-width="1.5"{dashes}/>')

    def text(self, x, y, text, anchor="start", size=12, weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}" font-weight="{weight}">{escape(text)}</text>')

    def write(self, path, source):
        with open(path, "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                       f'height="{self.height:.0f}" font-family="sans-serif">\n'
                       f"<!-- {escape(source).replace('--', '- -')} -->\n"
                       '<rect width="100%" height="100%" fill="white"/>\n'
                       + "\n".join(self.parts) + "\n</svg>\n")


def label(row):
    key = f"socket {row['key']}" if row["path"] == "socket" else row["key"]
    by = ", pktgen" if row.get("injector") == "pktgen" else ""
    return f"{row['traffic']}, IPv{row['ip']}, {key}{by}"


def scale(most):
    return (WIDTH - LEFT - RIGHT) / (most or 1)


def instructions(rows, path, source):
    rows = [row for row in rows if row["path"] != "socket" or row["key"] == "mark"]
    unit = scale(max(max(row["c"]["median"], row["rust"]["median"]) for row in rows))
    svg = Svg(90 + len(rows) * (2 * BAR + GAP))
    svg.text(12, 24, "Instructions a packet that the path adds", size=15, weight="bold")
    for x, colour, name in ((12, C, "C"), (52, RUST, "Rust")):
        svg.rect(x, 38, 12, 12, colour)
        svg.text(x + 16, 49, name)
    svg.line(112, 38, 112, 50, LINE, "3,2")
    svg.text(120, 49, PUBLISHED)
    y = 66
    for row in rows:
        c, rust = row["c"]["median"], row["rust"]["median"]
        svg.text(LEFT - 8, y + BAR + 4, label(row), "end", 11)
        svg.rect(LEFT, y, c * unit, BAR, C)
        svg.rect(LEFT, y + BAR, rust * unit, BAR, RUST)
        svg.text(LEFT + max(c, rust) * unit + 6, y + BAR + 4,
                 f"{c:.0f} \u2192 {rust:.0f} ({rust / c - 1:+.0%})", size=11)
        less = saved(row)
        if less:
            x = LEFT + (c - less) * unit
            svg.line(x, y - 2, x, y + 2 * BAR + 2, LINE, "3,2")
        y += 2 * BAR + GAP
    svg.write(path, source)


def contention(rows, path, source):
    most = max(row["cpus"] for row in rows)
    rows = [row for row in rows if row["cpus"] == most]
    names = dict.fromkeys(one["object"] for row in rows for impl in ("c", "rust")
                          for one in row["objects"].get(impl, ()))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    unit = scale(max(row["writes"][impl] for row in rows for impl in ("c", "rust")))
    top = 46 + 18 * len(names)
    svg = Svg(top + 30 + len(rows) * (2 * BAR + GAP))
    svg.text(12, 24, f"Writes a packet to cache lines that {most} CPUs share, by what they are",
             size=15, weight="bold")
    for number, name in enumerate(names):
        svg.rect(12, 38 + 18 * number, 12, 12, colours[name])
        svg.text(30, 49 + 18 * number, name)
    y = top
    for row in rows:
        svg.text(LEFT - 30, y + BAR + 4, label(row), "end", 11)
        for at, impl, name in ((y, "c", "C"), (y + BAR, "rust", "Rust")):
            x = LEFT
            svg.text(LEFT - 4, at + BAR - 2, name, "end", 9)
            for one in row["objects"].get(impl, ()):
                svg.rect(x, at, one["writes"] * unit, BAR - 1, colours[one["object"]])
                x += one["writes"] * unit
            svg.text(x + 6, at + BAR - 2, f"{row['writes'][impl]:.2f}", size=10)
        y += 2 * BAR + GAP
    svg.write(path, source)


def write(data, directory):
    """Both plots, of what is in results.json."""
    source = f"{data['command']}, commit {data['commit']}, kernel {data['kernel']}"
    instructions(data["instructions"], f"{directory}/bench-instructions.svg", source)
    contention(data["contention"], f"{directory}/bench-contention.svg", source)
