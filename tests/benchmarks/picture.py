"""Pictures of what is measured: prompts over a conversation, and work against its prompts.

The picture of the README: `python tests/benchmarks/picture.py docs [--figures FILE]`. Its figures
are those of `examples/shift.py --json`; `shift.json` has the ones that `docs/work.md` shows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import AGENTS, FULL, OURS, require

NAME = "prompt_tokens"
COLOURS = ("#6e6e6e", "#8c6bb1", "#d98200", "#a6761d", "#3a7d44", "#1260cc", "#5aa9e6", "#0b2f66")
"""In the order of the agents; memory in shades of blue."""
WIDTH, HEIGHT, DOTS = 10.0, 5.6, 130
SHIFT_HEIGHT = 4.9
SETTINGS = {
    "svg.hashsalt": NAME,
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MIN_GAP = 0.034
"""How far apart two labels are, as a part of the axis."""
_COLOURS_KEPT = 64
_STEP = 0.155
"""How far apart the labels of two arms with the same score are, as a share."""
SHIFT = "shift"
FIGURES = Path(__file__).with_name("shift.json")
ARMS = {
    "full": ("full history", COLOURS[0], "o"),
    "trim": ("trim: the newest messages", COLOURS[1], "v"),
    "summary": ("langchain's summary", COLOURS[2], "s"),
    "deepagents": ("deepagents' summary and files", COLOURS[4], "D"),
    "observational": ("langgraph_om without recall", COLOURS[5], "P"),
    "observational+recall": ("langgraph_om", COLOURS[7], "X"),
}
"""The name, the colour and the mark of each arm of a shift."""


def draw(outcomes: Sequence[Any], folder: Path, threshold: int | None = None) -> list[Path]:
    """Draw the size of each turn's last prompt, as PNG and SVG, and return the files.

    Args:
        outcomes: What `bench_peers.compare` has found.
        folder: Where the files are written; it is made when there is none.
        threshold: Of the agents that are drawn; `None`: the largest.
    """
    require("matplotlib")
    import matplotlib as mpl  # noqa: PLC0415 optional

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    at = threshold or max(each.threshold for each in outcomes)
    drawn = [each for each in outcomes if each.agent == FULL or each.threshold == at]
    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT), facecolor="white")
        for each in drawn:
            _line(axes, each)
        _frame(axes, drawn, at)
        _label(axes, drawn)
        figure.subplots_adjust(left=0.07, right=0.695, top=0.92, bottom=0.1)
        files = [_save_png(figure, folder, NAME), _save_svg(figure, folder, NAME)]
        plt.close(figure)
    return files


def shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the shares of tasks right, rules kept and facts known, from 0 to 1."""
    return {
        "tasks": row["right"] / row["tasks"],
        "rules": 1 - row["rules broken"] / row["rules that mattered"],
        "facts": 1 - len(row["facts missed"]) / row["facts"],
    }


def score(row: Mapping[str, Any]) -> float:
    """Return the mean of the three shares, from 0 to 1."""
    found = shares(row)
    return sum(found.values()) / len(found)


def cost(figures: Mapping[str, Any], room: str, arm: str) -> float:
    """Return the tokens of an arm's prompts as a part of full history's."""
    arms = figures["rooms"][room]
    return float(arms[arm]["actor"]["tokens"] / arms["full"]["actor"]["tokens"])


def draw_shift(figures: Mapping[str, Any], folder: Path) -> Path:
    """Draw what each arm got right against what its prompts took, as PNG, and return the file.

    Args:
        figures: The output of `examples/shift.py --json`, with the arm `full`.
        folder: Where the file is written; it is made when there is none.
    """
    require("matplotlib")
    import matplotlib as mpl  # noqa: PLC0415 optional

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(WIDTH, SHIFT_HEIGHT), facecolor="white")
        _frame_shift(axes, figures)
        for number, room in enumerate(figures["rooms"]):
            for arm in figures["rooms"][room]:
                if arm != "full" or number == 0:  # it has no room
                    at = (cost(figures, room, arm), score(figures["rooms"][room][arm]))
                    _mark(axes, arm, at, filled=number == 0)
        _label_shift(axes, figures)
        figure.subplots_adjust(left=0.08, right=0.97, top=0.87, bottom=0.12)
        file = _save_png(figure, folder, SHIFT)
        plt.close(figure)
    return file


def _colour(agent: str) -> str:
    return COLOURS[list(AGENTS).index(agent)]


def _line(axes: Any, outcome: Any) -> None:
    ours = outcome.agent == OURS
    axes.plot(
        range(1, len(outcome.sizes) + 1),
        outcome.sizes,
        color=_colour(outcome.agent),
        linewidth=2.2 if ours else 1.1,
        alpha=1.0 if ours or outcome.agent == FULL else 0.85,
        zorder=3 if ours else 2,
    )


def _label(axes: Any, drawn: Sequence[Any]) -> None:
    """Write the names at the ends of the lines, as far apart as they need to be read."""
    bottom, top = axes.get_ylim()
    gap = (top / bottom) ** _MIN_GAP
    height = 0.0
    for each in sorted(drawn, key=lambda outcome: outcome.sizes[-1]):
        size = each.sizes[-1]
        height = max(size, height * gap)
        axes.annotate(
            each.agent,
            xy=(len(each.sizes), size),
            xytext=(len(each.sizes) * 1.025, height),
            color=_colour(each.agent),
            fontweight="bold" if each.agent == OURS else "normal",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "color": "#999999", "lw": 0.6},
        )


def _frame(axes: Any, drawn: Sequence[Any], threshold: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    axes.set_yscale("log")
    most = max(max(each.sizes) for each in drawn)
    ticks = [size for size in (100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5) if size <= most]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.set_ylim(max(150, threshold * 0.12), most * 1.15)
    axes.set_xlim(0, max(len(each.sizes) for each in drawn))
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("turn of the conversation")
    axes.set_title(
        f"Prompt tokens of each turn (log scale), thresholds at {threshold:,} tokens",
        loc="left",
        fontsize=12,
    )


def _frame_shift(axes: Any, figures: Mapping[str, Any]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.5, 1]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_xlim(0.05, 1.1)
    axes.set_ylim(0, 1.15)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.grid(color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        "tokens of the agent's prompts, of full history's (log scale; without memory's own calls)"
    )
    axes.set_ylabel("mean of tasks right, rules kept, facts known")
    tasks = next(iter(figures["rooms"].values()))["full"]["tasks"]
    axes.set_title(
        f"Work done right against the prompts it took ({tasks} tasks, equal room for all memories)",
        loc="left",
        fontsize=12,
        pad=26,
    )
    what = (
        "readable in the prompt, no model's score"
        if figures["actor"] == "readable"
        else f"with {figures['actor']}"
    )
    rooms = [f"{int(room):,}" for room in figures["rooms"]]
    marks = "".join(
        f"; {word}: room of {room} tokens"
        for word, room in zip(("filled", "hollow"), rooms, strict=False)
    )
    axes.text(0, 1.035, what + marks, transform=axes.transAxes, fontsize=10, color="#555555")


def _mark(axes: Any, arm: str, at: tuple[float, float], *, filled: bool) -> None:
    _, colour, mark = ARMS[arm]
    face = colour if filled else "white"
    axes.plot(*at, mark, color=colour, markerfacecolor=face, markersize=9, zorder=3, clip_on=False)


def _label_shift(axes: Any, figures: Mapping[str, Any]) -> None:
    """Write the names beside the marks, arms of about the same score below each other."""
    rooms = figures["rooms"]
    first = next(iter(rooms))
    groups: dict[tuple[bool, int], list[str]] = {}
    for arm, row in rooms[first].items():
        groups.setdefault((arm == "full", round(score(row) * 10)), []).append(arm)
    for (is_full, _), arms in groups.items():
        right = max(cost(figures, room, arm) for room in rooms for arm in arms)
        middle = sum(score(rooms[first][arm]) for arm in arms) / len(arms)
        top = middle + _STEP * (len(arms) - 1) / 2
        for number, arm in enumerate(arms):
            name, colour, _ = ARMS[arm]
            if is_full:
                x, height, align = right, middle - _STEP * 0.9, "right"
            else:
                x, height, align = right * 1.16, top - number * _STEP, "left"
                ends = [(cost(figures, room, arm), score(rooms[room][arm])) for room in rooms]
                near = max(ends)
                line = ((near[0], right * 1.14), (near[1], height))
                axes.plot(*line, color=colour, linewidth=0.7, alpha=0.6, zorder=2)
            weight = "bold" if arm.startswith("observational") else "normal"
            name_style = {"color": colour, "fontsize": 10.5, "fontweight": weight}
            axes.text(x, height, name, ha=align, va="bottom", **name_style)
            said = _say([shares(rooms[room][arm]) for room in rooms])
            axes.text(x, height, said, ha=align, va="top", color="#555555", fontsize=9)


def _say(found: Sequence[Mapping[str, float]]) -> str:
    """Write the shares of each kind, once where all rooms have the same."""
    said = []
    for kind in found[0]:
        each = dict.fromkeys(f"{share[kind] * 100:.0f}" for share in found)
        said.append(f"{kind} {' and '.join(each)} %")
    return ", ".join(said)


def _save_png(figure: Any, folder: Path, name: str) -> Path:
    from PIL import Image  # noqa: PLC0415 comes with matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.png"
    figure.savefig(file, dpi=DOTS, facecolor="white")
    with Image.open(file) as drawn:
        # Few colours make a small file, which is saved without what matplotlib says of itself.
        small = drawn.convert("RGB").quantize(_COLOURS_KEPT)
    small.info.clear()
    small.save(file, optimize=True)
    return file


def _save_svg(figure: Any, folder: Path, name: str) -> Path:
    file = folder / f"{name}.svg"
    figure.savefig(file, facecolor="white", metadata={"Date": None, "Creator": None})
    # Lines without blanks at their ends, as everywhere in the repository.
    lines = file.read_text("utf-8").splitlines()
    file.write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the picture of a shift.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where it is written")
    parser.add_argument("--figures", type=Path, default=FIGURES, metavar="FILE")
    chosen = parser.parse_args()
    draw_shift(json.loads(chosen.figures.read_text("utf-8")), chosen.folder)


if __name__ == "__main__":
    main()
