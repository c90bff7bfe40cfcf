"""The documents are true: links lead somewhere, snippets run, settings exist, every game is described."""

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from playmill.cli.serve import Serve
from playmill.games import registry
from playmill.telemetry.catalogue import ALIASES, CATALOGUE
from playmill.training.config import Train, load_recipe, recipe_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def name_of(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """The names GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def snippets(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{name_of(page)} links to {target}"
        assert not anchor or anchor in anchors(file), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=name_of)
def test_every_snippet_runs(page, tmp_path):
    for code in snippets(page):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
        assert done.returncode == 0, f"{code}\n{done.stderr}"


def settings(kind, prefix=""):
    """Names of all settings of a config, as the command line spells them."""
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.default_factory):
            yield from settings(field.default_factory, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}".replace("_", "-")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_setting_named_exists(page):
    known = {*settings(Train), *settings(Serve)}
    for name in re.findall(r"--([a-z]+\.[a-z-]+)", page.read_text()):
        group, _, leaf = name.partition(".")
        assert {name, f"{group}.{leaf.removeprefix('no-')}"} & known, f"{name_of(page)} names --{name}"


@pytest.mark.parametrize("game", registry.names())
def test_every_game_has_a_page_and_a_recipe(game):
    page = ROOT / "docs" / "games" / f"{game}.md"
    assert page.exists(), f"write docs/games/{game}.md"
    assert f"games/{game}.md" in (ROOT / "docs" / "index.md").read_text()
    spec = registry.spec(game)
    text = page.read_text()
    for field in spec.schema.fields:
        assert f"`{field.name}`" in text, f"{game}.md does not describe the field {field.name}"
    for bot in spec.bots:
        assert f"`{bot}`" in text, f"{game}.md does not describe the bot {bot}"
    for option in spec.option_specs:
        assert f"`{option.name}`" in text, f"{game}.md does not describe the option {option.name}"
    assert load_recipe(f"{game}/quick").game == game


def test_every_metric_is_described_and_no_other():
    text = (ROOT / "docs" / "metrics.md").read_text()
    table = text[text.index("| metric | kind") : text.index("*Who decides*")]
    names = {metric.name for metric in CATALOGUE}
    assert [name for name in names if f"`{name}`" not in table] == []
    for metric in CATALOGUE:
        for label in metric.labels:
            assert f"`{label}`" in table
    used = re.findall(r"playmill_([a-z_]+)", text)
    assert {name.removesuffix("_total") for name in used} <= names
    mtg = set(re.findall(r"`mtg_([a-z_]+)`", text))
    assert {name.removesuffix("_total") for name in mtg} == {alias.name for alias in ALIASES}


def test_every_recipe_is_listed():
    text = (ROOT / "docs" / "learning.md").read_text()
    assert [name for name in recipe_names() if f"`{name}`" not in text] == []


def test_the_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
