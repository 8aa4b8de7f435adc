#!/usr/bin/env python3
"""Draws how costs grow with the store, from the JSON of make bench BENCH_ROWS=scale, as SVG.

    regress/bench/plot.py regress/bench/build/results.json > docs/growth.svg
"""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 60, 300, 20, 50
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
BAR = 1.5


def growth(rows):
    """Of what should stay flat: {name: [(size, cost beside that at the smallest size), ...]}"""
    found = {}
    for row in rows:
        if row["row"].startswith("scale-") and row["bar"].startswith("within"):
            points = sorted((int(size), value) for size, value in row["columns"].items())
            found[row["row"].removeprefix("scale-")] = [(size, value / points[0][1]) for size, value in points]
    return found


def svg(lines):
    """The lines of the picture."""
    sizes = sorted({size for points in lines.values() for size, _ in points})
    highest = max(2, math.ceil(max(ratio for points in lines.values() for _, ratio in points) * 2) / 2)

    def across(size):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def down(ratio):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ratio / highest

    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
           ' font-size="12">')
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    for step in range(int(highest * 2) + 1):
        ratio = step / 2
        yield (f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(ratio):.1f}" y2="{down(ratio):.1f}"'
               f' stroke="{"#c00000" if ratio == BAR else "#dddddd"}"/>')
        yield f'<text x="{LEFT - 8}" y="{down(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>'
    for size in sizes:
        yield f'<text x="{across(size):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{size:,}</text>'
    yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
           f'reports; costs beside those at {sizes[0]:,}; bar: {BAR}</text>')
    for place, (name, points) in enumerate(lines.items()):
        colour, y = COLOURS[place % len(COLOURS)], TOP + 20 + 20 * place
        path = " ".join(f"{across(size):.1f},{down(ratio):.1f}" for size, ratio in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield (f'<line x1="{WIDTH - RIGHT + 20}" x2="{WIDTH - RIGHT + 44}" y1="{y - 4}" y2="{y - 4}"'
               f' stroke="{colour}" stroke-width="2"/>')
        yield f'<text x="{WIDTH - RIGHT + 52}" y="{y}">{name}: {points[-1][1]:.2f}</text>'
    yield "</svg>"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = growth(json.load(file)["rows"])
    if not lines:
        sys.exit("no rows of scale in this file")
    print("\n".join(svg(lines)))


if __name__ == "__main__":
    main()
