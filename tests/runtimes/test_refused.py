"""Exports that a stranger may have altered, with right checksums: one line says what is wrong with them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pcfgnat.checkpoints.metadata import CheckpointError, sha256_of
from pcfgnat.cli import main
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.runtimes.onnx import Exported, onnx_runtime
from pcfgnat.storage.toml import dump_toml, load_toml
from pcfgnat.translator import Translator, describe_model
from tests.runtimes.models import save_model

Table = dict[str, Any]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports that are as they should be, by name."""
    place = tmp_path_factory.mktemp("originals")
    for name in ("depth 0", "depth 1", "dag", "ctc", "slots", "autoregressive", "hybrid"):
        export_onnx(save_model(place / f"{name} checkpoint", name), place / name)
    export_onnx(place / "depth 1 checkpoint", place / "int8", ExportSettings(int8=True))
    return place


@pytest.fixture
def copied(originals: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(originals / name, tmp_path / "copy"))

    return copy


def altered(directory: Path, change: Callable[[Table], None]) -> None:
    """Change the metadata, and make the checksums right again."""
    path = directory / "exported.toml"
    metadata = load_toml(path)
    metadata["files"] = {name: sha256_of(directory / name) for name in metadata["files"]}
    change(metadata)
    path.write_text(dump_toml(metadata), encoding="utf-8")


def used(directory: Path) -> None:
    """Load an export, and translate with it."""
    runtime = onnx_runtime(Exported.open(directory))
    parse_strategy("greedy", runtime).decode(runtime, [[2, 5, 6, 3]], Request())


def refused(directory: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        used(directory)
    assert "\n" not in str(caught.value)


def geometry(name: str, value: object) -> Callable[[Table], None]:
    return lambda metadata: metadata["shape"]["geometry"].update({name: value})


def shape(name: str, value: object) -> Callable[[Table], None]:
    return lambda metadata: metadata["shape"].update({name: value})


def network(name: str) -> Callable[[Table], None]:
    return lambda metadata: metadata["network"].update(name=name)


def two_for_one(metadata: Table) -> None:
    """As many nodes as before, but other rules."""
    metadata["shape"]["geometry"].update(upsampling=1, prefix_depth=2)


def no_geometry(metadata: Table) -> None:
    del metadata["shape"]["geometry"]


def without(file: str) -> Callable[[Table], None]:
    def change(metadata: Table) -> None:
        del metadata["files"][file]

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("depth 1", geometry("upsampling", 0), r"geometry.upsampling must be in 1 … 64, got 0"),
        ("depth 1", geometry("upsampling", 10**8), r"geometry.upsampling must be in 1 … 64, got 100000000"),
        ("depth 1", geometry("upsampling", 3), r"max_canvas_length must be 146 by geometry, got 98"),
        ("depth 1", geometry("prefix_depth", 40), r"geometry.prefix_depth must be in 0 … 4, got 40"),
        ("depth 1", geometry("prefix_depth", -1), r"geometry.prefix_depth must be in 0 … 4, got -1"),
        ("depth 1", geometry("prefix_depth", "1"), r"shape.geometry.prefix_depth must be an integer"),
        ("depth 1", geometry("structure", "tree"), r"structure must be one of 'grammar', 'graph', 'slots'"),
        ("dag", geometry("structure", "slots"), r"geometry.structure of dag must be 'graph', got 'slots'"),
        ("depth 1", two_for_one, r"links.npy must have shape \(25, None\), got \(49, \d+\)"),
        ("dag", no_geometry, r"shape.geometry.structure of dag must be 'graph', got none"),
        ("depth 1", shape("width", 10**9), r"width must be in 1 … 65536, got 1000000000"),
        ("depth 1", shape("width", 17), r"tokens.npy must have shape \(44, 17\), got \(44, 16\)"),
        ("slots", shape("max_source_length", 0), r"max_source_length must be in 1 … 1048576, got 0"),
        ("slots", shape("max_canvas_length", 9), r"canvas_positions.npy must have shape \(9, 16\), got"),
        ("ctc", shape("copy_input", True), r"network.onnx does not fit its metadata: "),
        ("depth 1", shape("copy_input", False), r"network.onnx does not fit its metadata: "),
        ("depth 1", network("dag"), r"geometry.structure of dag must be 'graph', got 'grammar'"),
        ("depth 1", network("ctc"), r"geometry.structure of ctc must be 'slots', got 'grammar'"),
        ("depth 1", network("slots"), r"exported.toml must have encoder.onnx among its files"),
        ("slots", network("pcfg"), r"geometry.structure of pcfg must be 'grammar', got none"),
        ("depth 1", network("rnn"), r"network.name must be one of pcfg, dag, ctc, slots, .*got 'rnn'"),
        ("depth 1", network("autoregressive"), r"exported.toml must have encoder.onnx among its files"),
        ("depth 1", without("network.onnx"), r"exported.toml must have network.onnx among its files"),
        ("depth 1", without("exact.onnx"), r"exported.toml must have exact.onnx among its files"),
        ("depth 1", without("tables/tokens.npy"), r"must have tables/tokens.npy among its files"),
        ("int8", without("tables/token_scales.npy"), r"tokens.npy must hold float32, got int8"),
        ("depth 0", without("start.onnx"), r"network.onnx does not fit its metadata: "),
        ("depth 1", lambda metadata: metadata.update(format=3), r"format must be one of 2, got 3"),
        ("depth 1", lambda metadata: metadata.update(precision="int4"), r"precision must be one of"),
        ("depth 1", lambda metadata: metadata.update(vocabulary=45), r"vocabulary must be 45, got 44 of the"),
        ("depth 1", lambda metadata: metadata.update(code="x"), r"unknown key 'code'"),
    ],
)
def test_metadata(
    copied: Callable[[str], Path], name: str, change: Callable[[Table], None], message: str
) -> None:
    directory = copied(name)
    altered(directory, change)
    refused(directory, message)


def transformed(directory: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    path = directory / "tables" / f"{name}.npy"
    np.save(path, change(np.load(path)), allow_pickle=True)
    altered(directory, lambda metadata: None)


@pytest.mark.parametrize(
    ("name", "table", "change", "message"),
    [
        (
            "depth 1",
            "source_positions",
            lambda t: t.astype(np.int64),
            "must hold float32 or float16, got int64",
        ),
        (
            "depth 1",
            "canvas_tokens",
            lambda t: t.astype(np.float64),
            "must hold float32 or float16, got float64",
        ),
        ("depth 1", "tokens", lambda t: t.astype(np.float16), "must hold float32, got float16"),
        ("depth 1", "tokens", lambda t: t.astype(np.int8), "must hold float32, got int8"),
        ("int8", "tokens", lambda t: t.astype(np.float32), "must hold int8, got float32"),
        ("int8", "token_scales", lambda t: t.astype(np.int8), "must hold float32 or float16, got int8"),
        ("depth 1", "canvas_tokens", lambda t: t.astype(object), "must be a table of numbers: "),
        ("depth 1", "tokens", lambda t: t[0], r"must have shape \(44, 16\), got \(16,\)"),
        ("depth 1", "tokens", lambda t: t[None], r"must have shape \(44, 16\), got \(1, 44, 16\)"),
        ("depth 1", "tokens", lambda t: t[:-1], r"must have shape \(44, 16\), got \(43, 16\)"),
        ("int8", "token_scales", lambda t: t[:-1], r"must have shape \(44,\), got \(43,\)"),
        ("depth 1", "canvas_positions", lambda t: t[:-1], r"must have shape \(98, 16\), got \(97, 16\)"),
        ("depth 1", "chain_links", lambda t: t[:-1], r"must have shape \(49, None\), got \(48, \d+\)"),
        ("depth 1", "other_links", lambda t: t[:-1], r"must have shape \(49, None\), got \(48, \d+\)"),
        ("depth 1", "chain_links", lambda t: t.ravel(), r"must have shape \(49, None\), got"),
        ("depth 1", "chain_links", lambda t: t[:, :-1], "network.onnx does not fit its metadata: "),
        ("dag", "node_links", lambda t: t[:-1], r"must have shape \(72, None\), got \(71, \d+\)"),
    ],
)
def test_tables(
    copied: Callable[[str], Path],
    name: str,
    table: str,
    change: Callable[[np.ndarray], np.ndarray],
    message: str,
) -> None:
    directory = copied(name)
    transformed(directory, table, change)
    refused(directory, message)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{"])
def test_what_is_no_table(copied: Callable[[str], Path], content: bytes) -> None:
    directory = copied("ctc")
    (directory / "tables" / "canvas_tokens.npy").write_bytes(content)
    altered(directory, lambda metadata: None)
    refused(directory, "canvas_tokens.npy must be a table of numbers: ")


@pytest.mark.parametrize(
    ("name", "file", "output"),
    [
        ("depth 1", "network.onnx", "chain"),
        ("depth 1", "network.onnx", "states"),
        ("dag", "network.onnx", "transitions"),
        ("dag", "start.onnx", "query"),
        ("ctc", "exact.onnx", "mass"),
        ("slots", "encoder.onnx", "length"),
        ("slots", "encoder.onnx", "keys_values"),
        ("slots", "decoder.onnx", "states"),
        ("autoregressive", "encoder.onnx", "keys_values"),
        ("autoregressive", "decoder.onnx", "states"),
        ("hybrid", "encoder.onnx", "keys_values"),
        ("hybrid", "network.onnx", "chain"),
        ("hybrid", "decoder.onnx", "states"),
    ],
)
def test_graphs_of_renamed_outputs(copied: Callable[[str], Path], name: str, file: str, output: str) -> None:
    directory = copied(name)
    path = directory / file
    graph = onnx.load(path, load_external_data=False)
    for node in graph.graph.node:
        node.output[:] = ["renamed" if value == output else value for value in node.output]
    for value in graph.graph.output:
        value.name = "renamed" if value.name == output else value.name
    path.write_bytes(graph.SerializeToString())
    altered(directory, lambda metadata: None)
    refused(directory, rf"{file} must have the output {output}, got .*renamed")


def endless() -> onnx.NodeProto:
    """A loop of 2⁶³ - 1 turns."""
    value = onnx.helper.make_tensor_value_info
    types = onnx.TensorProto
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["on"], ["still_on"])],
        "body",
        [value("turn", types.INT64, []), value("on", types.BOOL, [])],
        [value("still_on", types.BOOL, [])],
    )
    return onnx.helper.make_node("Loop", ["", "always"], [], body=body)


def test_graphs_with_loops(copied: Callable[[str], Path]) -> None:
    directory = copied("depth 1")
    path = directory / "network.onnx"
    graph = onnx.load(path, load_external_data=False)
    graph.graph.initializer.append(onnx.helper.make_tensor("always", onnx.TensorProto.BOOL, [], [True]))
    graph.graph.node.insert(0, endless())
    path.write_bytes(graph.SerializeToString())
    altered(directory, lambda metadata: None)
    refused(directory, r"network.onnx must have no loops, branches or functions, got Loop")


def test_graphs_with_functions(copied: Callable[[str], Path]) -> None:
    directory = copied("depth 1")
    path = directory / "network.onnx"
    graph = onnx.load(path, load_external_data=False)
    graph.functions.add(name="again", domain="own")
    path.write_bytes(graph.SerializeToString())
    altered(directory, lambda metadata: None)
    refused(directory, r"network.onnx must have no loops, branches or functions, got a function")


@pytest.mark.parametrize("content", [b"", b"\x3a", b"\x3a\x7f\x0a", b"\x3b", b"\xff" * 12])
def test_graphs_that_are_cut(copied: Callable[[str], Path], content: bytes) -> None:
    directory = copied("dag")
    (directory / "network.onnx").write_bytes(content)
    altered(directory, lambda metadata: None)
    refused(directory, r"network.onnx is not a graph that onnxruntime can run: ")


def test_graphs_that_are_none(copied: Callable[[str], Path]) -> None:
    directory = copied("dag")
    (directory / "network.onnx").write_bytes(b"no graph")
    altered(directory, lambda metadata: None)
    refused(directory, r"network.onnx is not a graph that onnxruntime can run: ")


def test_exports_of_format_1_are_refused_with_advice(
    copied: Callable[[str], Path], originals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copied("ctc")
    (directory / "exported.toml").rename(directory / "engine.toml")
    expected = rf"{directory} was exported by pcfgnat 0.1: export its checkpoint again"
    for use in (used, Translator.load, describe_model):
        with pytest.raises(CheckpointError, match=expected):
            use(directory)
    assert main(["info", str(directory)]) == 2
    assert "export its checkpoint again" in capsys.readouterr().err
    checkpoint = directory.parent / "checkpoint"
    shutil.copytree(originals / "ctc checkpoint", checkpoint)
    shutil.copytree(directory, checkpoint / "onnx")
    with pytest.raises(CheckpointError, match="export its checkpoint again"):
        Translator.load(checkpoint)
    assert Translator.load(checkpoint, runtime="torch").strategies == ("greedy", "beam", "sample")


def test_what_is_not_altered_is_used(originals: Path) -> None:
    for name in ("depth 0", "depth 1", "dag", "ctc", "slots", "int8"):
        used(originals / name)
