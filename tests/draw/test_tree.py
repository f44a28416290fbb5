import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw.scene import Box, Scene, legend, stacked
from pcfgnat.draw.tree import LEVEL, MIN_PAGE, tree_scene
from tests.draw.trees import chain, full, some_tree, weather


def edges(box: Box) -> tuple[float, float, float, float]:
    return (
        box.x - box.width / 2,
        box.x + box.width / 2,
        box.y - box.height / 2,
        box.y + box.height / 2,
    )


def texts(scene: Scene) -> list[str]:
    return [label.text for label in scene.labels]


def test_the_main_chain_is_one_line_from_left_to_right() -> None:
    boxes = tree_scene(weather()).boxes
    on_chain = [box for box in boxes if box.text != "heute"]
    assert len({box.y for box in on_chain}) == 1
    assert [box.text for box in sorted(boxes, key=lambda box: box.x)] == [
        *("<s>", "Das", "Wetter", "ist", "heute", "schö", "n", ".", "</s>")
    ]
    assert [box.role for box in boxes] == [
        *("end", "chain", "chain", "chain", "prefix", "chain", "chain", "chain", "end")
    ]


def test_a_prefix_tree_hangs_below_its_word() -> None:
    scene = tree_scene(weather())
    boxes = {box.node: box for box in scene.boxes}
    (line,) = [stroke for stroke in scene.strokes if stroke.role == "prefix"]
    assert line.ends == (9, 8)
    assert line.points[0][1] == edges(boxes[9])[3]
    assert line.points[-1] == (boxes[8].x, edges(boxes[8])[2])
    assert boxes[8].y == boxes[9].y + LEVEL
    assert boxes[8].x < boxes[9].x


def test_deeper_nodes_stand_lower() -> None:
    boxes = tree_scene(full()).boxes
    top = boxes[0].y
    assert [round((box.y - top) / LEVEL) for box in boxes] == [0, 3, 2, 3, 1, 3, 2, 3, 0, 0]


def test_shades_are_probabilities() -> None:
    scene = tree_scene(weather())
    assert [box.strength for box in scene.boxes] == pytest.approx([1 - 0.1 * i for i in range(9)])
    first, *_, last = [stroke for stroke in scene.strokes if stroke.role == "chain"]
    assert first.strength == 1.0
    assert last.strength == pytest.approx(0.3)
    assert first.opacity > last.opacity
    assert scene.boxes[0].border_opacity > scene.boxes[7].border_opacity


def test_hovering_tells_the_numbers() -> None:
    titles = [box.title for box in tree_scene(weather()).boxes]
    assert titles[4] == "▁heute\nnode 8, prefix tree\ntoken 60.0 %"
    assert titles[5] == "▁schö\nnode 9, main chain\ntoken 50.0 %\nrule 50.0 %: left heute, right n"


def test_pieces_of_a_word_are_joined_below() -> None:
    scene = tree_scene(weather())
    assert texts(scene) == ["schön"]
    (brace,) = [stroke for stroke in scene.strokes if stroke.role == "plain"]
    first, second = scene.boxes[5], scene.boxes[6]
    assert edges(first)[0] < brace.points[0][0] < edges(first)[1]
    assert edges(second)[0] < brace.points[-1][0] < edges(second)[1]
    assert brace.points[1][1] > scene.boxes[4].y  # below the line to ▁heute, which leaves the word
    assert edges(second)[0] - edges(first)[1] < edges(scene.boxes[2])[0] - edges(scene.boxes[1])[1]


def test_a_word_in_two_rows_says_so() -> None:
    scene = tree_scene(chain(["<s>", "▁" + "a" * 20, "b" * 20, "c" * 20, "</s>"]), page=300)
    assert len({box.y for box in scene.boxes}) > 1
    names = texts(scene)
    assert names[0].endswith("…")
    assert names[-1].startswith("…")


def test_rows_break_between_words_where_they_can() -> None:
    pieces = ["<s>", *["▁aaaaa", "bbbbb"] * 6, "</s>"]
    boxes = tree_scene(chain(pieces), page=420).boxes
    rows = {box.y: [other.text for other in boxes if other.y == box.y] for box in boxes}
    assert len(rows) > 2
    assert all(row[0] != "bbbbb" for row in rows.values())


@settings(max_examples=40)
@given(st.integers(0, 3), st.integers(0, 10**6), st.integers(200, 900), st.integers(1, 12))
def test_the_sentence_can_be_read_off_any_page(depth: int, seed: int, page: int, word_length: int) -> None:
    tree = some_tree(depth, seed, word_length)
    scene = tree_scene(tree, page=page)
    tops = sorted({box.y for box in scene.boxes if box.role != "prefix"})
    read = sorted(scene.boxes, key=lambda box: (sum(box.y >= top for top in tops), box.x))
    assert [box.position for box in read] == list(range(len(tree["nodes"])))
    for i, box in enumerate(scene.boxes):
        left, right, top, bottom = edges(box)
        assert 0 <= left < right <= scene.width
        assert 0 <= top < bottom <= scene.height
        for other in scene.boxes[:i]:
            beside = edges(other)
            apart = right < beside[0] or beside[1] < left or bottom < beside[2] or beside[3] < top
            assert apart, (box.text, other.text)
    joined = {stroke.ends for stroke in scene.strokes if stroke.ends}
    nodes = tree["nodes"]
    assert joined == {
        (row["node"], nodes[child]["node"])
        for row in nodes
        for child in (row["left"], row["right"])
        if child is not None
    }


@settings(max_examples=15)
@given(st.integers(2, 70), st.integers(300, 1200))
def test_long_sentences_stay_on_the_page(length: int, page: int) -> None:
    scene = tree_scene(chain(["▁word"] * length), page=page)
    assert scene.width <= page
    tops = sorted({box.y for box in scene.boxes})
    counts = [sum(box.y == top for box in scene.boxes) for top in tops]
    assert max(counts[:-1], default=0) - min(counts[:-1], default=0) <= 1
    marks = [stroke for stroke in scene.strokes if stroke.ends is None]
    assert len(marks) == 2 * (len(tops) - 1)  # the line runs out and comes in


def test_rows_are_of_about_the_same_length() -> None:
    boxes = tree_scene(chain(["▁word"] * 13), page=960).boxes
    tops = sorted({box.y for box in boxes})
    counts = [sum(box.y == top for box in boxes) for top in tops]
    assert counts in ([7, 6], [6, 7])


def test_long_words_are_shortened_and_told_in_full() -> None:
    word = "Donaudampfschifffahrt" * 20
    box = tree_scene(chain(["<s>", word, "</s>"])).boxes[1]
    assert box.text.endswith("…")
    assert box.width < 400
    assert word in box.title


def test_captions_wrap_and_widen_nothing() -> None:
    scene = tree_scene(chain(["a", "b"]), caption="The source.\n" + "word " * 60, page=400)
    assert texts(scene)[0] == "The source."
    assert not scene.labels[0].strong
    assert scene.labels[1].strong
    assert len(scene.labels) > 3
    assert scene.width <= 400
    assert scene.boxes[0].y > scene.labels[-1].y


def test_scenes_are_put_under_each_other() -> None:
    one = tree_scene(weather(), caption="one")
    both = stacked([one, one, legend([("chain", "main chain")])])
    assert both.height > 2 * one.height
    assert both.description == "one / one"
    assert both.boxes[9].y > max(box.y for box in one.boxes)
    assert len(both.strokes) == 2 * len(one.strokes)
    assert "main chain" in texts(both)
    with pytest.raises(ValueError, match="something to draw"):
        stacked([])


def test_narrow_pages_are_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {MIN_PAGE} wide, got 199"):
        tree_scene(weather(), page=199)
