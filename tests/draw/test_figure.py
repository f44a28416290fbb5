import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.draw import missing_characters, scene_pdf, scene_png, tree_scene
from tests.draw.trees import chain, weather


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_picture_has_the_size_of_its_scene() -> None:
    scene = tree_scene(weather(), caption="$x$ _ 100 %")  # no mathematics
    for scale in (1.0, 2.0):
        width, height = size(scene_png(scene, scale=scale))
        assert width == pytest.approx(scale * scene.width, abs=1)
        assert height == pytest.approx(scale * scene.height, abs=1)


def test_light_and_dark_differ() -> None:
    import io

    from matplotlib.image import imread

    scene = tree_scene(weather())
    light, dark = (imread(io.BytesIO(scene_png(scene, theme, scale=1.0))) for theme in ("light", "dark"))
    assert light.shape == dark.shape
    assert light[0, 0, :3].min() == 1.0  # white paper
    assert dark[0, 0, :3].max() < 0.2
    box = scene.boxes[1]
    inside = light[round(box.y), round(box.x - box.width / 2 + 4), :3]
    assert inside[2] > inside[0] + 0.1  # blue
    assert len({tuple(pixel) for pixel in light.reshape(-1, light.shape[2])}) > 20


def test_characters_without_a_font_are_told() -> None:
    assert missing_characters(tree_scene(weather())) == ""
    assert missing_characters(tree_scene(chain(["<s>", "größe", "\U0010fff0", "</s>"]))) == "\U0010fff0"
    assert size(scene_png(tree_scene(chain(["<s>", "\U0010fff0", "</s>"])), scale=1.0))


def test_matplotlib_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcfgnat.draw.figure.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="a PNG needs matplotlib"):
        scene_png(tree_scene(weather()))
    with pytest.raises(ValueError, match="a PDF needs matplotlib"):
        scene_pdf(tree_scene(weather()))
    with pytest.raises(ValueError, match="a PNG or PDF needs matplotlib"):
        missing_characters(tree_scene(weather()))


def test_too_much_is_refused() -> None:
    scene = replace(tree_scene(weather()), height=40_000.0)
    with pytest.raises(ValueError, match=r"at most 65535 pixels on a side, got .* by 80000"):
        scene_png(scene)
    with pytest.raises(ValueError, match=r"at most 14400 points on a side, got .* by 30000"):
        scene_pdf(scene)


def test_a_pdf_has_the_size_of_its_scene_and_is_always_the_same() -> None:
    scene = tree_scene(weather(), caption="100 % ö")
    drawn = scene_pdf(scene)
    assert drawn.startswith(b"%PDF-1.")
    box = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", drawn)
    assert box is not None
    assert [float(side) for side in box.groups()] == pytest.approx([0.75 * scene.width, 0.75 * scene.height])
    assert scene_pdf(scene) == drawn
    assert scene_pdf(scene, "dark") != drawn


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext here")
def test_a_pdf_can_be_searched(tmp_path: Path) -> None:
    (tmp_path / "tree.pdf").write_bytes(scene_pdf(tree_scene(weather(), caption="Nice today ö")))
    command = ["pdftotext", str(tmp_path / "tree.pdf"), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {"Das", "Wetter", "ist", "heute", "schö", "n"} <= set(text.split())
    assert "Nice today ö" in text
