"""The picture of the prompts over a conversation: a line for each agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import AGENTS, FULL, OURS, require

NAME = "prompt_tokens"
COLOURS = ("#6e6e6e", "#8c6bb1", "#d98200", "#a6761d", "#3a7d44", "#1260cc", "#5aa9e6", "#0b2f66")
"""In the order of the agents; memory in shades of blue."""
WIDTH, HEIGHT, DOTS = 10.0, 5.6, 130
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
        files = _save(figure, folder)
        plt.close(figure)
    return files


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


def _save(figure: Any, folder: Path) -> list[Path]:
    from PIL import Image  # noqa: PLC0415 comes with matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{NAME}.{kind}" for kind in ("png", "svg")]
    figure.savefig(files[0], dpi=DOTS, facecolor="white")
    with Image.open(files[0]) as drawn:
        # Few colours make a small file, which is saved without what matplotlib says of itself.
        small = drawn.convert("RGB").quantize(_COLOURS_KEPT)
    small.info.clear()
    small.save(files[0], optimize=True)
    figure.savefig(files[1], facecolor="white", metadata={"Date": None, "Creator": None})
    # Lines without blanks at their ends, as everywhere in the repository.
    lines = files[1].read_text("utf-8").splitlines()
    files[1].write_text("\n".join(line.rstrip() for line in lines) + "\n", "utf-8")
    return files
