"""The diagrams of the documentation: the objective, and the layers of the code."""

from docs.drawing import INK, MUTED, PALE, RULE, WIDTH, arrow, box, circle, line, picture, text

NEIGHBOR, OWN, OTHER = (
    "#0072B2",
    "#D55E00",
    "#9aa0a6",
)  # of colors that color-blind readers can distinguish; shapes differ, too
NEIGHBORS = ((-45, -24), (-36, 36), (24, 46))  # places around an anchor at (0, 0)
OWN_VIEW = (42, -30)
OTHERS = ((-96, -44), (-92, 42), (92, -48), (100, 20), (-86, -2), (78, 60))
CROWD = 66  # radius of the neighborhood

# Each row's packages, top down: a package imports only from rows below its own.
LAYERS = (
    {"bin, data_prep": "one program per verb, one module per data source"},
    {"reporting": "tables of the documentation, figures, the report page"},
    {"paper": "tables as data, and their jobs", "serving": "export, load, score, stream"},
    {"evaluation": "heads on a representation, metrics, predictions"},
    {"training": "the loop, schedules, early stopping, gin, distribution"},
    {"methods": "momentum contrast, auto-encoders, End-to-End"},
    {"objective": "neighborhoods, losses", "networks": "encoder, projector, decoder"},
    {"data": "readers, preprocessing, cohort, windows, simulator"},
    {"runs": "run directories on disk; no TensorFlow"},
    {"files, memory, errors, stopping, version, project": "atomic writes, messages for users"},
)


def mark(kind: str, x: float, y: float) -> str:
    """A sample in the space of representations: 'anchor', 'own' view, 'neighbor' or 'other'."""
    if kind == "own":
        return f'<path d="M{x:g} {y - 10:g}l10 10l-10 10l-10-10z" fill="{OWN}"/>'
    if kind == "other":
        return box(x - 7, y - 7, 14, 14, OTHER, OTHER, radius=2)
    return circle(x, y, 8, NEIGHBOR) if kind == "neighbor" else circle(x, y, 8, "#ffffff", INK) + circle(x, y, 4, INK)


def space(x: float, y: float, discriminate: bool) -> str:
    """An anchor among its keys, with arrows: what L_NA does to them, or L_ND."""

    def moved(place: tuple[float, float], start: float, end: float) -> str:
        """An arrow from `start` to `end`, both in pixels from the anchor, through `place`."""
        length = (place[0] ** 2 + place[1] ** 2) ** 0.5
        ends = [(x + place[0] * reach / length, y + place[1] * reach / length) for reach in (start, end)]
        return arrow(*ends, MUTED)

    parts = [circle(x, y, CROWD, "#f5f9fc", NEIGHBOR, "5 4"), moved(OWN_VIEW, 39, 13)]
    for place in NEIGHBORS:
        reach = (place[0] ** 2 + place[1] ** 2) ** 0.5
        parts.append(moved(place, reach + 11, reach + 32) if discriminate else moved(place, reach - 11, 14))
    for place in () if discriminate else OTHERS:
        reach = (place[0] ** 2 + place[1] ** 2) ** 0.5
        parts.append(moved(place, reach + 12, reach + 32))
    marks = [mark("other", x + right, y + down) for right, down in OTHERS]
    parts.append(f'<g opacity="{0.35 if discriminate else 1}">{"".join(marks)}</g>')
    parts += [mark("neighbor", x + right, y + down) for right, down in NEIGHBORS]
    return "\n".join([*parts, mark("own", x + OWN_VIEW[0], y + OWN_VIEW[1]), mark("anchor", x, y)])


def objective() -> str:
    """The objective, from an hour of a stay to its two losses."""
    title = "Neighborhood contrastive learning: the objective"
    description = (
        "Top: one stay, hour by hour; the hours close to an anchor hour are its neighborhood. Middle: two augmented views "
        "of the anchor's window; the encoder maps view 1 to a point, the momentum encoder, which follows the encoder "
        "slowly, maps view 2 to a key, and a queue keeps the keys of many hours. Bottom: L_NA pulls the keys of the "
        "neighborhood towards the anchor and pushes all others away; L_ND separates the anchor's own other view from its "
        "neighbors. The loss is alpha times L_NA plus 1 minus alpha times L_ND."
    )
    return picture(650, title, description, _hours(), _networks(), _losses())


def _hours() -> str:
    """A stay as a row of hours."""
    parts, anchor = [text(28, 40, "One stay, hour by hour", bold=True)], 12
    for hour in range(22):
        near = abs(hour - anchor) < 4
        fill, stroke = ("#cfe3f2", NEIGHBOR) if near else (PALE, RULE)
        parts.append(
            box(28 + 30.4 * hour, 54, 26, 26, INK if hour == anchor else fill, INK if hour == anchor else stroke, 3)
        )
    left, middle, right = 28 + 30.4 * (anchor - 3), 41 + 30.4 * anchor, 54 + 30.4 * (anchor + 3)
    parts += [
        text(middle, 42, "anchor", bold=True, anchor="middle"),
        line([(left, 86), (left, 93), (right, 93), (right, 86)], NEIGHBOR, 2),
        text(middle, 114, "its neighborhood: hours close in time", fill=NEIGHBOR, anchor="middle", bold=True),
        text(middle, 136, "(or hours with the same label, or a rule of your own)", fill=MUTED, anchor="middle"),
    ]
    return "\n".join(parts)


def _networks() -> str:
    """Two views, two encoders, and the queue."""
    keys = ("own", "neighbor", "other", "other", "neighbor", "other", "other", "other")
    parts = [
        box(28, 218, 96, 52),
        text(76, 240, "anchor’s", anchor="middle"),
        text(76, 260, "48 hours", anchor="middle"),
        arrow((126, 232), (156, 200)),
        arrow((126, 256), (156, 288)),
        text(116, 196, "augment", fill=MUTED, anchor="end"),
    ]
    for y, view, name in ((172, "view 1", "encoder"), (272, "view 2", "momentum encoder")):
        parts += [
            box(160, y, 76, 44),
            text(198, y + 28, view, anchor="middle"),
            arrow((238, y + 22), (260, y + 22)),
            box(264, y, 186, 44, "#e8eaed"),
            text(357, y + 28, name, anchor="middle"),
            arrow((452, y + 22), (474, y + 22)),
        ]
    parts += [
        arrow((336, 218), (336, 268), dashes="5 4"),
        text(346, 249, "follows slowly", fill=MUTED),
        mark("anchor", 492, 194),
        text(512, 200, "the anchor’s point"),
        arrow((492, 208), (492, 264)),
        text(512, 240, "compared with keys", fill=MUTED),
        box(476, 268, 216, 52),
        *(mark(kind, 494 + 26 * place, 294) for place, kind in enumerate(keys)),
        text(584, 343, "queue of keys", anchor="middle"),
    ]
    return "\n".join(parts)


def _losses() -> str:
    """What the two losses do, and their sum."""
    captions = (
        ("L_{NA} pulls neighbors together,", "away from all other keys"),
        ("L_{ND} separates the other view", "from the neighbors"),
    )
    parts = []
    for x, lines, discriminate in ((28, captions[0], False), (366, captions[1], True)):
        parts += [box(x, 360, 326, 204, "#ffffff"), space(x + 163, 438, discriminate)]
        parts += [
            text(x + 163, 532 + 21 * place, words, anchor="middle", bold=not place) for place, words in enumerate(lines)
        ]
    legend = (
        (60, "anchor", "anchor"),
        (186, "own", "its other view"),
        (372, "neighbor", "neighbor"),
        (514, "other", "other key"),
    )
    for x, kind, words in legend:
        parts += [mark(kind, x, 590), text(x + 16, 596, words)]
    parts.append(text(WIDTH / 2, 630, "loss = α L_{NA} + (1 − α) L_{ND}", size=20, anchor="middle", bold=True))
    return "\n".join(parts)


def architecture() -> str:
    """The packages as layers."""
    parts = []
    for row, packages in enumerate(LAYERS):
        y, width = 24 + 56 * row, 664 / len(packages) - 8 * (len(packages) - 1)
        for place, (names, what) in enumerate(packages.items()):
            x = 28 + (width + 16) * place
            parts += [
                box(x, y, width, 48),
                text(x + 12, y + 20, names, bold=True),
                text(x + 12, y + 40, what, fill=MUTED),
            ]
    title = "The packages of ncl_tf as layers"
    described = "; ".join(", ".join(f"{names} ({what})" for names, what in row.items()) for row in LAYERS)
    return picture(40 + 56 * len(LAYERS), title, f"From top to bottom: {described}.", *parts)
