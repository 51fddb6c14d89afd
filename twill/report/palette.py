"""Colours: one hue per warp group, as in the paper's Figure 9 (loads green, then pink, blue, orange, yellow),
and what is marked in red."""

import colorsys

INK = "#1b1f24"
FAINT = "#6b7380"
RULE = "#d5d9e0"
CRITICAL = "#c81e1e"
CARRIED = "#7c3aed"

_HUES = ("#9bd3a0", "#f2a7c3", "#9cc4ee", "#f6bd87", "#f4e08a", "#c5b3ec", "#93d9d4", "#c9c3b8")
PLAIN = "#e6e9ee"


def group_color(group: int | None, shade: float = 0.0) -> str:
    """The colour of a warp group, darker (`shade` up to 1) or paler (down to -1)."""
    base = PLAIN if group is None else _HUES[group % len(_HUES)]
    return shaded(base, shade)


def shaded(color: str, shade: float) -> str:
    """`color` darker (`shade` up to 1) or paler (down to -1)."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    light = light * (1 - 0.55 * shade) if shade > 0 else light + (1 - light) * -shade * 0.75
    return "#" + "".join(
        f"{round(255 * channel):02x}" for channel in colorsys.hls_to_rgb(hue, light, saturation)
    )
