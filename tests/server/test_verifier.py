"""A served model with a verifier: what requests get, and how the command names it."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pcfgnat.server.models import named_verifiers
from pcfgnat.server.process import ServeSettings
from pcfgnat.translator import Translator
from tests.runtimes.models import save_model


def test_translations_come_with_their_rounds(tmp_path: Path) -> None:
    drafter, reader = (save_model(tmp_path / name, name) for name in ("depth 1", "autoregressive"))
    settings = ServeSettings({"pair": drafter, "alone": drafter}, verifiers={"pair": reader})
    expected = Translator.load(drafter, verifier=reader)("w1 w2 w3").to_dict()
    with TestClient(settings()) as client:
        pair, alone = client.get("/models").json()["models"]
        assert pair["strategy"] == "verify:tolerance=1.0"
        assert {"verify", "rescore", "mbr", "beam"} <= set(pair["strategies"])
        assert "verify" not in alone["strategies"]
        found = client.post("/translate", json={"text": "w1 w2 w3"}).json()["translations"]
        assert found == [json.loads(json.dumps(expected))]
        assert found[0]["verification"]["rounds"] == len(found[0]["verification"]["drafts"]) >= 1
        other = client.post("/translate", json={"text": "w1 w2 w3", "model": "alone"}).json()
        assert "verification" not in other["translations"][0]
        asked = {"text": "w1 w2 w3", "strategy": "rescore", "results": 2}
        assert len(client.post("/translate", json=asked).json()["translations"][0]["alternatives"]) == 1
        assert client.post("/explain", json={"text": "w1", "strategy": "viterbi"}).status_code == 200
        refused = client.post("/explain", json={"text": "w1"})
        assert refused.status_code == 422
        assert refused.json()["detail"] == "a lattice needs a strategy that finds a tree, got verify"


def test_the_command_names_verifiers() -> None:
    models = {"small": None, "large": None}
    assert named_verifiers([], models) == {}
    assert named_verifiers(["runs/teacher"], models) == {"small": Path("runs/teacher")}
    assert named_verifiers(["large=x", "y/z=1"], models) == {"large": Path("x"), "small": Path("y/z=1")}
    with pytest.raises(ValueError, match="--verifier must be DIR or NAME=DIR of small, large, got 'other=x'"):
        named_verifiers(["other=x"], models)
    with pytest.raises(ValueError, match="every model may have one --verifier, got two for 'small'"):
        named_verifiers(["x", "small=y"], models)
