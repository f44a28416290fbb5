"""The mutants of a file: one small change each, by the operators of cosmic-ray."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

Place = tuple[int, int]  # line from 1 on, column from 0 on
# Decorators declare, variables need a name to replace, and whether small numbers are one object is no matter.
UNWANTED = ("RemoveDecorator", "VariableReplacer", "VariableInserter", "NotEq_Is", "Eq_IsNot", "Eq_Is")
OPERATORS = [get_operator(name)() for name in operator_names() if not name.endswith(UNWANTED)]


@dataclass(frozen=True)
class Mutant:
    """A file's text with one change."""

    line: int
    before: str
    after: str
    text: str


def mutants(source: str, chance: random.Random) -> Iterator[Mutant]:
    """Draw places in the source, each once, and at each one of the changes that can be made there."""
    places: dict[Place, list[tuple[int, int]]] = {}
    idle, nodes = list(_without_effect(source)), list(ast_nodes(get_ast(source)))
    for number, operator in enumerate(OPERATORS):
        found = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, place in enumerate(found):
            if not any(first <= place < last for first, last in idle):
                places.setdefault(place, []).append((number, occurrence))
    for place in chance.sample(sorted(places), len(places)):
        number, occurrence = chance.choice(places[place])
        text = mutate_code(source, OPERATORS[number], occurrence)
        if _compiles(text):
            before, after = (whole.splitlines()[place[0] - 1].strip() for whole in (source, text))
            yield Mutant(place[0], before, after, text)


def _without_effect(source: str) -> Iterator[tuple[Place, Place]]:
    """Yield the ranges that hold types, declarations, how to compile, or the text of errors."""
    lines = [line.encode() for line in source.splitlines()]  # ast counts bytes
    tree = ast.parse(source)
    aliases = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    found: list[ast.expr | ast.stmt | None] = [value for value in aliases if isinstance(value, ast.Subscript)]
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef():
                found += [node.returns, *node.decorator_list]
            case ast.ClassDef():
                found += node.decorator_list
            case ast.arg() | ast.AnnAssign():
                found.append(node.annotation)
            case ast.Raise() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                found.append(node)
            case ast.Call(func=ast.Attribute(attr="njit")):
                found.append(node)
    for part in found:
        if part is not None:
            assert part.end_lineno is not None
            assert part.end_col_offset is not None
            first, last = lines[part.lineno - 1], lines[part.end_lineno - 1]
            start = len(first[: part.col_offset].decode())
            yield (part.lineno, start), (part.end_lineno, len(last[: part.end_col_offset].decode()))


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
