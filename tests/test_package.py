"""What goes to a package index, and the files for running a server, checked with the real tools."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def index_readme(source: str | None) -> str:
    """Return the README as a package index gets it."""
    program = f"import setup; print(setup.index_readme(open('README.md').read(), {source!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_links_of_the_long_description_are_absolute_and_their_files_exist() -> None:
    source = "https://example.org/pcfgnat"
    links = [link for link in LINK.findall(index_readme(source)) if not link.startswith("#")]
    own = [link for link in links if link.startswith(source)]
    assert own
    assert all(link.startswith("https://") for link in links)
    for link in own:
        path = re.sub(r"^/(?:raw|blob)/main/|#.*$", "", link.removeprefix(source))
        assert (ROOT / path).exists(), link
    assert f"{source}/raw/main/docs/pictures/tree.svg" in own


def test_without_a_public_address_no_link_is_broken() -> None:
    text = index_readme(None)
    assert [link for link in LINK.findall(text) if not link.startswith(("#", "https://"))] == []
    assert "The tree behind a translation" not in text
    assert "docs/results.md" in text  # as text


def test_addresses_of_the_project_are_real() -> None:
    assert not [url for url in PROJECT.get("urls", {}).values() if ".invalid" in url or "example" in url]


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {PROJECT['version']}\n" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    text = (DEPLOY / "pcfgnat.service").read_text(encoding="utf-8")
    unit = tmp_path / "pcfgnat.service"
    unit.write_text(text.replace("/opt/pcfgnat/bin/pcfgnat serve", f"{sys.executable} -m pcfgnat serve"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if "pcfgnat.service" in line] == []


@pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("openssl") is None, reason="needs nginx and openssl"
)
def test_the_proxy_configuration_is_valid(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=mt.example.org"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    text = text.replace("/etc/ssl/certs/mt.example.org.pem", str(certificate))
    text = text.replace("/etc/ssl/private/mt.example.org.key", str(key))
    main = tmp_path / "nginx.conf"
    main.write_text(f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    done = subprocess.run(["nginx", "-t", "-c", str(main)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_commands_of_the_container_exist() -> None:
    """Docker is not needed for what can be wrong most easily: options, extras and copied files."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    (arguments,) = re.findall(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    compose = re.findall(r"^      - (--[\w-]+)", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE)
    options = {*re.findall(r'"(--[\w-]+)"', arguments), *compose}
    command = [sys.executable, "-m", "pcfgnat", "serve", "--help"]
    described = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert options
    assert all(option in described for option in options)
    assert "USER 10001" in text
    assert "HEALTHCHECK" in text
    assert "torch" not in extras
