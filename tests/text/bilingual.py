"""Made-up parallel text, German and Chinese, that looks enough like language to learn subwords from."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

from pcfgnat.text.lines import TextPair

SUBJECTS = [
    ("Das Mädchen", "女孩"),
    ("Der Bär", "熊"),
    ("Die Schülerin", "女学生"),
    ("Ein größerer Hund", "一只更大的狗"),
    ("Mein Großvater", "我的祖父"),
    ("Frau Müller", "米勒女士"),
    ("Der Verkäufer", "售货员"),
    ("Unser Lehrer", "我们的老师"),
]
VERBS = [
    ("läuft", "跑"),
    ("wartet", "等待"),
    ("übt", "练习"),
    ("schläft", "睡觉"),
    ("hört zu", "听"),
    ("arbeitet", "工作"),
    ("lächelt", "微笑"),
]
PLACES = [
    ("vor dem Rathaus", "在市政厅前面"),
    ("über der Brücke", "在桥上"),
    ("in der Küche", "在厨房里"),
    ("am Flussufer", "在河边"),
    ("auf der Straße", "在街上"),
    ("im Bücherladen", "在书店里"),
]
TIMES = [
    ("heute", "今天"),
    ("früh am Morgen", "清晨"),
    ("gewöhnlich", "通常"),
    ("seit fünf Jahren", "五年来"),
    ("am Abend", "晚上"),
]


COMMA, COLON = "\uff0c", "\uff1a"


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs of one to five clauses."""
    chance = random.Random(seed)
    return [_sentence(chance) for _ in range(count)]


def _sentence(chance: random.Random) -> tuple[str, str]:
    clauses = [
        [chance.choice(words) for words in (SUBJECTS, VERBS, PLACES, TIMES)]
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5)))
    ]
    german = [" ".join(word for word, _ in clause) for clause in clauses]
    chinese = [f"{s[1]}{t[1]}{p[1]}{v[1]}" for s, v, p, t in clauses]
    number = chance.randrange(2000)
    return f"{number}: {', und '.join(german)}.", f"{number}{COLON}{COMMA.join(chinese)}。"


def write_pair(
    directory: Path, name: str, pairs: Sequence[tuple[str, str]], packed: bool = False
) -> TextPair:
    """Write `name.de` and `name.zh`, with `.gz` if packed."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    paths = [
        write_lines(directory / f"{name}.{ending}", side)
        for ending, side in zip(("de", "zh"), sides, strict=True)
    ]
    if packed:
        for path in paths:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()
    return TextPair.from_prefix(directory / name, "de", "zh")


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below a directory with its content."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
