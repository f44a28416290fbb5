"""Lattices: arcs join their nodes and pass through no others, in every format."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw import lattice_scene
from pcfgnat.draw.scene import Box, Point, Stroke
from tests.draw.trees import some_lattice


def along(stroke: Stroke, count: int = 24) -> Iterator[Point]:
    """Points of a curve."""
    for first in range(0, len(stroke.points) - 1, 3):
        a, b, c, d = stroke.points[first : first + 4]
        for step in range(count + 1):
            t = step / count
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            x = sum(weight * point[0] for weight, point in zip(weights, (a, b, c, d), strict=True))
            y = sum(weight * point[1] for weight, point in zip(weights, (a, b, c, d), strict=True))
            yield x, y


def inside(point: Point, box: Box) -> bool:
    return abs(point[0] - box.x) < box.width / 2 - 0.5 and abs(point[1] - box.y) < box.height / 2 - 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3), st.integers(0, 10**6), st.integers(300, 1200))
def test_arcs_pass_through_no_node(depth: int, seed: int, page: int) -> None:
    lattice = some_lattice(depth, seed)
    scene = lattice_scene(lattice, page=page)
    assert all(stroke.curved and stroke.ends for stroke in scene.strokes)
    for stroke in scene.strokes:
        for point in along(stroke):
            assert not [box.text for box in scene.boxes if inside(point, box)], stroke.ends
            assert 0 <= point[0] <= scene.width
            assert 0 <= point[1] <= scene.height


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 3), st.integers(0, 10**6))
def test_the_chosen_rules_are_always_drawn(depth: int, seed: int) -> None:
    lattice = some_lattice(depth, seed)
    drawn = {stroke.ends for stroke in lattice_scene(lattice).strokes}
    for node in lattice["nodes"]:
        for rule in node["rules"]:
            if rule["chosen"]:
                children = {rule["left"], rule["right"]} - {None}
                assert {(node["node"], child) for child in children} <= drawn
