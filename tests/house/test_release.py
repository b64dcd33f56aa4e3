"""What is published: one version everywhere, workflows that call what is there, pages that work elsewhere."""

import io
import re
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from release import contents, versions

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NATIVE = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
NUMBERS = st.integers(0, 12)
VERSIONS = st.builds("{}.{}.{}{}".format, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["", ".dev0", ".dev1", "rc1"]))


# ---------------------------------------------------------------- versions


def test_versions_agree():
    assert versions.disagreements() == []


@pytest.fixture
def copy(tmp_path):
    """The files that have a version in them."""
    for path in {place.path for place in versions.PLACES} | {"CHANGELOG.md"}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


@pytest.mark.parametrize("place", versions.PLACES, ids=lambda place: f"{place.path} {place.pattern}")
def test_a_version_that_differs_is_named(place, copy):
    place.write(copy, "9.9.9")
    lines = versions.disagreements(copy)
    wrong = {line.split(":")[0] for line in lines}
    others = {one.path for one in versions.PLACES} | {"CHANGELOG.md"}
    assert wrong == (others - {place.path} if place.path == "pyproject.toml" else {place.path})


@pytest.mark.parametrize("version", ["1.2.3.dev4", "1.2.3rc1", "1.2.3"])
def test_a_version_that_is_written_is_everywhere_but_in_the_changelog(version, copy):
    for place in versions.PLACES:
        place.write(copy, version)
    due = "## 1.2.3, " + ("YYYY-MM-DD" if version == "1.2.3" else "unreleased")
    top = next(line for line in (copy / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert versions.disagreements(copy) == [f"CHANGELOG.md: expected {due}, got {top}"]
    heading = due.replace("YYYY-MM-DD", "2031-02-03")
    (copy / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n{top}\n")
    assert versions.disagreements(copy) == []


@given(VERSIONS, VERSIONS)
def test_different_versions_are_different_to_npm(one, other):
    assert (versions.npm(one) == versions.npm(other)) == (one == other)


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3-dev.0", "1.2.3.post1", "1.2.3\n"])
def test_what_is_no_version_of_ours_is_refused(version):
    with pytest.raises(SystemExit, match="is no version of ours"):
        versions.npm(version)


# ---------------------------------------------------------------- metadata


@pytest.mark.parametrize("project", [PROJECT, NATIVE], ids=["ccesa", "ccesa-native"])
def test_classifiers_name_the_pythons_from_the_lowest_on(project):
    minor = int(project["project"]["requires-python"].removeprefix(">=3."))
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["project"]["classifiers"]))
    assert [int(one) for one in named] == list(range(minor, minor + len(named)))
    assert len(named) == 3


def test_the_kernel_has_the_licence():
    assert (ROOT / "native" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def shown(page: str) -> str:
    """A page as an index shows it: what pyproject.toml has replaced."""
    for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(one["pattern"], one["replacement"], page)
    return page


@pytest.mark.parametrize(
    ("written", "leads_to"),
    [
        ("[a](docs/a.md)", "https://github.com/ccesa/ccesa/blob/v$HFPR_VERSION/docs/a.md"),
        ("[a](docs/a.md#b)", "https://github.com/ccesa/ccesa/blob/v$HFPR_VERSION/docs/a.md#b"),
        ("[a](#b)", "https://github.com/ccesa/ccesa/blob/v$HFPR_VERSION/README.md#b"),
        ("![a](b.png)", "https://raw.githubusercontent.com/ccesa/ccesa/v$HFPR_VERSION/b.png"),
        ('<img alt="a" src="b.png">', "https://raw.githubusercontent.com/ccesa/ccesa/v$HFPR_VERSION/b.png"),
        ('<source srcset="b.png">', "https://raw.githubusercontent.com/ccesa/ccesa/v$HFPR_VERSION/b.png"),
        ('<a href="b.md">', "https://github.com/ccesa/ccesa/blob/v$HFPR_VERSION/b.md"),
        ("[a](https://example.org/b)", "https://example.org/b"),
    ],
)
def test_links_and_pictures_lead_to_the_repository(written, leads_to):
    found = re.search(r'[("](https?:[^)"]+)', shown(written))
    assert found[1] == leads_to
    assert contents.relative_links(shown(written)) == []
    assert bool(contents.relative_links(written)) == ("https:" not in written)


def test_no_link_of_the_readmes_leads_nowhere_on_an_index():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert contents.relative_links(readme)
    assert contents.relative_links(shown(readme)) == []
    assert contents.relative_links((ROOT / "native" / "README.md").read_text(encoding="utf-8")) == []


# ---------------------------------------------------------------- contents of archives


def held(kind: str) -> contents.Files:
    """An archive with exactly what belongs there."""
    named = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    return {
        f"ccesa-1.dist-info/{name}" if "wheel" in kind and name in named else name: b""
        for name in contents.expected(kind)
    }


@pytest.mark.parametrize(
    "kind", ["ccesa wheel", "ccesa sdist", "ccesa-native wheel", "ccesa-native sdist", "npm package"]
)
def test_an_archive_holds_exactly_what_belongs_there(kind):
    right = held(kind)
    assert contents.complaints(kind, right) == []
    missing = next(iter(right))
    assert len(contents.complaints(kind, {name: b"" for name in right if name != missing})) == 1
    assert contents.complaints(kind, right | {"tests/protocol/test_round.py": b""}) == [
        f"{kind}: tests/protocol/test_round.py does not belong there"
    ]
    path = f"{ROOT}/src/ccesa/agreement/config.py".encode()
    assert "names a folder of this machine" in contents.complaints(kind, right | {missing: path})[0]


def test_the_wheel_is_the_package_and_says_that_it_is_typed():
    names = contents.expected("ccesa wheel")
    assert {"ccesa/py.typed", "ccesa/__init__.py", "licenses/LICENSE"} <= names
    assert {name.split("/")[0] for name in names if name.endswith(".py")} == {"ccesa"}


def test_both_kinds_of_archives_are_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("ccesa/a.py", "1")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as sdist:
        member = tarfile.TarInfo("ccesa-1/ccesa/a.py")
        member.size = 1
        sdist.addfile(member, io.BytesIO(b"2"))
    wheel, sdist = contents.files(tmp_path / "a.whl"), contents.files(tmp_path / "a.tar.gz")
    assert (wheel, sdist) == ({"ccesa/a.py": b"1"}, {"ccesa/a.py": b"2"})
    assert contents.differences(wheel, sdist) == ["ccesa/a.py"]
    assert contents.differences(wheel, wheel) == []


# ---------------------------------------------------------------- workflows


def steps(path: Path) -> list[dict]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_only_what_is_there(path):
    for step in steps(path):
        for words in re.findall(r"(?:^|&& )make((?: \S+)+)", step.get("run", "")):
            named = {word for word in words.split() if "=" not in word}
            assert named <= TARGETS, f"{path.name}: {step['run']}"
        for script in re.findall(r"(?<!\S)(\.ci/\S+)", step.get("run", "")):
            assert (ROOT / script).exists()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_start_with_no_permission_and_pin_what_they_use(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {}
    for step in steps(path):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))


def test_only_the_jobs_that_publish_may_sign():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    signing = {name for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert signing == {"attest", "python", "npm"}
    assert {name for name in signing if "environment" in jobs[name]} == {"python", "npm"}
    assert not any("checkout" in step.get("uses", "") for name in signing for step in jobs[name]["steps"])


def test_the_documentation_is_published_from_main_alone():
    """Whoever may start a workflow by hand may do so on any branch."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text(encoding="utf-8"))["jobs"]
    writing = {name: job for name, job in jobs.items() if "write" in job["permissions"].values()}
    assert {name: job.get("if") for name, job in writing.items()} == {"publish": "github.ref == 'refs/heads/main'"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_pull_request_finds_nothing_to_take(path):
    """It runs its own code, so no secret is named, and a job that it starts may only read."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bsecrets\b|pull_request_target|workflow_run|issue_comment", text)
    started, jobs = (yaml.safe_load(text)[key] for key in (True, "jobs"))
    if "pull_request" in started:
        assert all(job["permissions"] == {"contents": "read"} for job in jobs.values())
        assert all(
            step["with"]["persist-credentials"] is False
            for step in steps(path)
            if step.get("uses", "").startswith("actions/checkout@")
        )


def test_the_smoke_test_of_a_wheel_is_where_the_build_of_wheels_looks_for_it():
    script = re.search(r"\{project\}/(\S+)", NATIVE["tool"]["cibuildwheel"]["test-command"])[1]
    assert (ROOT / script).exists()


def test_no_package_index_is_named():
    """Where packages come from is the affair of whoever installs them."""
    for path in [*WORKFLOWS, *(ROOT / "release").glob("*.*")]:
        assert not re.search(r"\b(pypi\.org|npmjs\.(org|com))", path.read_text(encoding="utf-8")), path
