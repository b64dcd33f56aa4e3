"""The English of pages, docstrings, comments, errors, help and web pages: patterns that make a reader stumble."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
#: A sentence of a page has at most this many words; lists with commas belong into lists with bullets.
WORDS = 40
#: A line of prose has at most this many characters, except where a program writes the page.
WIDTH = 120
WRITTEN = {"docs/performance.md"}
#: Keys of charter files, whose names stay; and what a plan says about them.
KEYS = {"least_group", "least_honest", "least_honest_fails", "least_roster"}


class Rule(NamedTuple):
    """What to look for, why it reads badly, a text that has it, and the same text as it should be."""

    pattern: str
    why: str
    bad: str
    good: str


RULES = {
    "who as a noun": Rule(
        r"(?:^|[.;:] )Who [^?]{3,}?[.](?= |$)|\b(?:for|to|by|from|with|against) who\b",
        "a person is a noun: a site, anyone who, those who",
        "Who comes late is told so.",
        "Late sites get an error.",
    ),
    "what as a noun": Rule(
        r"(?:^|[.] )What [^?]*[a-z][^?]*?[.](?= |$)",
        "name the thing, and begin with it",
        "What a hub stores is deleted then.",
        "The hub then deletes the stored rows.",
    ),
    "it is ... that": Rule(
        r"\b[Ii]t is (?:only|not|in|by|with|from|because|here|there|then)\b[^.,;:]{1,40} (?:that|who)\b",
        "put the subject first",
        "It is only here that floats are rounded.",
        "Floats are rounded only here.",
    ),
    "tell for reveal": Rule(
        r"\b(?:tells?|telling|told) (?:nothing|something|anything|more|less|about)\b",
        "a person tells, a number reveals or shows",
        "Sizes tell nothing about the values.",
        "Sizes reveal nothing about the values.",
    ),
    "spent for used up": Rule(
        r"\b(?:vector|task|round|keys?|masks?|tokens?|budget|that) (?:is|are|was|were|has been|have been) spent\b"
        r"|\b(?:a|the|this|that) spent [a-z]+",
        "a budget is used up, a task is closed",
        "A masked vector that was sent is spent: that is spent whatever happens.",
        "Once sent, a masked vector counts against the limit.",
    ),
    "so many for n": Rule(
        r"\b(?:of|with|by|in|for|takes?|at|after) so many\b(?! that)",
        "say how many, or give the parameter's name",
        "a graph of so many neighbours",
        "a graph in which each client has `degree` neighbours",
    ),
    "there is none": Rule(
        r"\bthere (?:is|are|was|were) none\b|\b(?:is|are|was|were) none of\b|\bthat (?:is|are) none\b",
        "something is missing, does not exist, or is not a ...",
        "column X: there is none",
        "column X is missing",
    ),
    "from 0 on": Rule(
        r"\bfrom (?:\d+|zero|one|X) on\b",
        "0 or greater; 43 or newer",
        "must be a number from 0 on",
        "must be 0 or greater",
    ),
    "already at the end": Rule(
        r"\b(?:(?:is|are|was|were) there|exists?|known|taken|sent|used|closed|running) already\b",
        "already stands before the verb",
        "the file is there already",
        "the file already exists",
    ),
    "no X can have": Rule(
        r"\b(?:that|which) no [a-z]+ can have\b",
        "say what is wrong with it",
        "a token that no header can have",
        "the token contains characters not allowed in a header",
    ),
    "of nobody": Rule(
        r"\b(?:of|for|by) nobody\b|\b(?:of|on) which nothing\b",
        "say what is missing",
        "a sum of nobody has no mean",
        "cannot average: no survivors",
    ),
    "is no X": Rule(
        r"(?<![Hh]ere )\b(?:is|are|was|were|be) no "
        r"(?!longer|more\b|less|larger|smaller|one\b|such|better|slower|faster|worse|fewer|later|likelier)[a-z]+",
        "is not a ...",
        "a field that is no number",
        "a field that is not a number",
    ),
    "anew": Rule(
        r"\banew\b", "again; from scratch; a new one", "the hub writes the log anew", "the hub writes the log again"
    ),
    "things that lie and stand": Rule(
        r"(?<!must )(?<!not )\b(?:lies?|lay) (?:in|beside|there|together)\b"
        r"|\b(?:stands?|stood) (?:in\b(?! for)|on|beside|there|here)",
        "files, keys and values are somewhere",
        "Vectors lie in memory, and the schema stands in the charter.",
        "Vectors are in memory, and the schema is in the charter.",
    ),
    "hangs on": Rule(r"\bhangs? (?:up)?on\b", "depends on", "Nothing hangs on it.", "Nothing depends on it."),
    "held against": Rule(
        r"\b(?:holds?|held) (?:it|them|(?:the|each|every|all|this|these|its) [^.;:]{0,20}) against\b",
        "compares one with the other",
        "A test holds the bounds against real graphs.",
        "A test compares the bounds with real graphs.",
    ),
    "is to be": Rule(
        r"\b(?:is|are|was|were) to be\b",
        "must be, has to be, will be",
        "the bytes that are to be read",
        "the bytes that must be read",
    ),
    "and never": Rule(
        r"\band never (?:a|an|the|to|by|in|what|from|of|for|its|which)\b",
        "two facts are two sentences",
        "It belongs to the identity and never to a backup.",
        "Keep it with the key. Never restore it from a backup.",
    ),
    "aphorisms": Rule(
        r"(?:^|[.] )(?:([Oo]ne|[Tt]wo|[Tt]hree|[Nn]o) \w+, (?i:\1) \w+[.]|Of (?:the|each|two|those|what|all)\b)",
        "subject, verb, object; say what to do",
        "Two ports, two publics.",
        "The hub has two ports for two audiences.",
    ),
    "says so": Rule(
        r"\bsa(?:ys|id) so\b",
        "logs it, prints a warning, answers with an error",
        "The node leaves the round, and the log says so.",
        "The node leaves the round and logs it.",
    ),
    "nothing of": Rule(
        r"\bnothing of\b",
        "nothing about, nothing from, no part of",
        "It imports nothing of the package.",
        "It imports nothing from the package.",
    ),
    "vectors that have left": Rule(
        r"\b(?:vectors?|repl(?:y|ies)|shares?|anything|something|what) (?:that )?(?:has|have) left\b",
        "clients leave, messages are sent",
        "a round for which a vector has left",
        "a round for which a vector was sent",
    ),
    "fitting": Rule(
        r"\b(?:not|never) go together\b|\b(?:other|different) as\b"
        r"|\b(?:informations|datas|softwares|advices|feedbacks|evidences)\b|\b(?:allow|permit|enable)s? to\b",
        "contradict each other; other than; information; allow someone to",
        "two fields that do not go together",
        "two fields that contradict each other",
    ),
}
_PATTERNS = {name: re.compile(rule.pattern) for name, rule in RULES.items()}

_FENCES = re.compile(r"^ *(```+|~~~+)[^`\n]*\n.*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_NOT_PROSE = re.compile(r"<!--.*?-->|(?<=\])\([^)\s]*\)|<[^<>\n]*>", re.DOTALL)
_SPANS = re.compile(r"(`+)[^`]+\1")
_PARAGRAPHS = re.compile(r"\n\s*\n|\n(?= *(?:[-*] |\d+\. |\||#|>))")
_WORDS = re.compile(r"[A-Za-z][\w'-]+|X\b|\d[\d.,]*")  # not the symbols of a formula
_SENTENCES = re.compile(r"(?<=[.?!:])[)\"*_]* (?=\S)")
_COMMENTS = re.compile(r"(?:^ *#:? .*\n)+|  # .*\n", re.MULTILINE)
_ELSEWHERE = re.compile(
    r"/\*.*?\*/|(?:^ *//.*\n)+|(?<=\s)// .*|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`|(?<=>)[^<>{}]+(?=<)",
    re.DOTALL | re.MULTILINE,
)


class Text(NamedTuple):
    """A paragraph, an item of a list, a row of a table, a string or a comment, on one line."""

    place: str
    words: str


parsed = cache(ast.parse)  # each file once, for its texts and its names


def page_texts(name: str, page: str) -> Iterator[Text]:
    for block in _PARAGRAPHS.split(_NOT_PROSE.sub("", _FENCES.sub("", page))):
        yield Text(name, line_of(_SPANS.sub("X", block)))


def python_texts(name: str, source: str) -> Iterator[Text]:
    """All strings of more than one word, where a value is an X, and all comments."""
    nodes = list(ast.walk(parsed(source)))
    parts = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts.update(id(value) for value in node.values)
            said = (value.value if isinstance(value, ast.Constant) else "X" for value in node.values)
            yield from string_texts(f"{name}:{node.lineno}", "".join(map(str, said)))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield from string_texts(f"{name}:{node.lineno}", node.value)
    for found in _COMMENTS.finditer(source):
        yield Text(name, line_of(re.sub(r"^ *#:?", "", found.group(), flags=re.MULTILINE)))


def string_texts(place: str, text: str) -> Iterator[Text]:
    for paragraph in re.split(r"\n\s*\n|\n(?= *[a-z_*]+: )", text) if " " in text else ():
        yield Text(place, line_of(_SPANS.sub("X", paragraph)))


def other_texts(name: str, source: str) -> Iterator[Text]:
    """Strings and comments of TypeScript, and what a page shows."""
    for found in _ELSEWHERE.finditer(source):
        text = re.sub(r"^[ /*]+|[/*]+$", "", found.group(), flags=re.MULTILINE)
        yield from string_texts(name, re.sub(r"\$\{[^}]*\}", "X", text))


def line_of(text: str) -> str:
    return " ".join(text.split()).strip('"`')


KINDS = {".md": page_texts, ".py": python_texts, ".ts": other_texts, ".html": other_texts}
PAGES = (
    "*.md",
    "docs/**/*.md",
    "clients/typescript/*.md",
    "examples/*/*.md",
    "fuzz/*.md",
    "native/*.md",
    "vectors/*.md",
)
FILES = (*PAGES, "src/ccesa/**/*.py", "src/ccesa/**/*.html", "clients/typescript/src/**/*.ts")


@cache
def texts() -> list[Text]:
    paths = sorted({path for pattern in FILES for path in ROOT.glob(pattern)})
    return [
        text
        for path in paths
        for text in KINDS[path.suffix](str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]


def findings(name: str, among: list[Text]) -> list[str]:
    found = ((text, match) for text in among for match in _PATTERNS[name].finditer(text.words))
    return [f"{text.place}: ...{text.words[max(0, m.start() - 40) : m.end() + 40]}..." for text, m in found]


def long_sentences(text: Text) -> list[str]:
    """The sentences that are too long; rows of tables have none."""
    if text.words[:1] in ("|", "#"):
        return []
    return [said for said in _SENTENCES.split(text.words) if len(_WORDS.findall(said)) > WORDS]


@pytest.mark.parametrize("name", RULES)
def test_no_text_has_the_pattern(name):
    assert findings(name, texts()) == [], f"{RULES[name].why}: {RULES[name].good!r}, not {RULES[name].bad!r}"


@pytest.mark.parametrize("name", RULES)
def test_a_pattern_finds_the_bad_text_and_not_the_good_one(name):
    rule = RULES[name]
    assert findings(name, [Text("here", rule.bad)])
    assert not any(findings(other, [Text("here", rule.good)]) for other in RULES)


@pytest.mark.parametrize(
    ("suffix", "source"),
    [
        (".md", "# Title\n\nA page that\nis no number, with ``code``.\n"),
        (".md", "| a | b |\n|---|---|\n| c | this is no number |\n"),
        (".md", "```python\nx = 1\n```\n\n- a list: it is no\n  number\n"),
        (".py", '"""It is no number."""\n'),
        (".py", 'def f():\n    """Return.\n\n    Raises:\n        ValueError: It is no number.\n    """\n'),
        (".py", 'raise ValueError(f"{name!r} is no "\n    f"number, got {value}")\n'),
        (".py", 'parser.add_argument("--n", help="is no number")\n'),
        (".py", "#: This is\n#: no number.\nN = 1\n"),
        (".py", "N = 1  # is no number\n"),
        (".ts", "/**\n * It is\n * no number.\n */\n"),
        (".ts", 'throw new ConfigError("x is no number");\n'),
        (".ts", "throw new ConfigError(`${name} is no ${kind} number`);\n// is no number\n"),
        (".html", "<p>It is no number</p>\n"),
        (".html", '<script>\nput("here", "it is no number");\n</script>\n'),
    ],
)
def test_every_kind_of_text_is_read(suffix, source):
    assert findings("is no X", list(KINDS[suffix]("a file", source)))


@pytest.mark.parametrize("source", ["```python\nit is no number\n```\n", "`is no number`\n", "<!-- is no number -->\n"])
def test_code_is_left_out(source):
    assert not findings("is no X", list(page_texts("a file", source)))


def test_the_whole_is_read():
    """Fewer texts than these mean that something is no longer found."""
    places = {text.place.partition(":")[0] for text in texts() if " " in text.words}
    for suffix, least in {".md": 70, ".py": 150, ".ts": 80, ".html": 2}.items():
        assert sum(place.endswith(suffix) for place in places) >= least, suffix


def test_sentences_of_pages_are_short():
    assert [
        f"{text.place}: {said}" for text in texts() if text.place.endswith(".md") for said in long_sentences(text)
    ] == []


def test_a_long_sentence_is_found():
    said = ("Word " * WORDS).strip()
    assert not long_sentences(Text("here", f"A sentence. {said}. Another: {said}."))
    assert long_sentences(Text("here", f"A sentence. And {said}."))
    assert not long_sentences(Text("here", f"| a row | {said} | {said} |"))


def wide_lines(page: str) -> list[str]:
    """Lines of prose that are too long; tables, pictures, titles and code have their own width."""
    return [line for line in _FENCES.sub("", page).splitlines() if len(line) > WIDTH and line.lstrip()[0] not in "|!<#"]


def test_lines_of_pages_are_short():
    pages = {str(path.relative_to(ROOT)): path for pattern in PAGES for path in ROOT.glob(pattern)}
    found = {name: wide_lines(path.read_text("utf-8")) for name, path in pages.items() if name not in WRITTEN}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_wide_line_is_found():
    assert wide_lines("short\n" + "wide " * WIDTH)
    assert not wide_lines(f"| {'wide ' * WIDTH} |\n```text\n{'wide ' * WIDTH}\n```\n")


@cache
def definitions() -> dict[str, list[ast.ClassDef | ast.FunctionDef]]:
    """The classes and functions of the package by their names."""
    found: dict[str, list[ast.ClassDef | ast.FunctionDef]] = {}
    for path in sorted(ROOT.glob("src/ccesa/**/*.py")):
        for node in parsed(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
    return found


def names_of(node: ast.AST) -> Iterator[str]:
    """The name, fields, methods and parameters that a caller can write."""
    if isinstance(node, ast.ClassDef):
        yield node.name
        for inner in node.body:
            yield from (name for name in names_of(inner) if not name.startswith("_"))
    elif isinstance(node, ast.FunctionDef):
        yield node.name
        yield from (each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def says_least_or_most(name: str) -> bool:
    return re.search(r"(?:^|_)(?:least|most)(?:_|$)", name, re.IGNORECASE) is not None and name not in KEYS


def test_public_names_say_minimum_and_maximum():
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/reference/*.md"))
    listed = re.findall(r"^::: (\S+)", pages, re.MULTILINE)
    names = [
        (one, name)
        for one in listed
        for node in definitions().get(one.rpartition(".")[2], ())
        for name in names_of(node)
    ]
    assert len(names) > 500
    assert [f"{one}: {name}" for one, name in names if says_least_or_most(name)] == []


def test_a_name_with_least_or_most_is_found():
    assert all(map(says_least_or_most, ("least_sum", "most", "MOST_BYTES", "rounds_at_most")))
    assert not any(map(says_least_or_most, ("almost", "leftmost", "max_task", "least_roster")))
