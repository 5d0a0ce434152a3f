#!/usr/bin/env python3
"""Fails on words and sentences that a reader would have to read twice.

Checks for avoided words in comments, messages and test names of Swift files, in the prose of Markdown files, in
comments of all other sources, and in the mutants' descriptions. Also requires a summary in each doc comment of Swift,
and short sentences in documents. `tools/check-language.py PATH…` checks the given files; `--count` prints the number of
findings by kind. Exceptions are in tools/language-exceptions.txt, each with its reason.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXCEPTIONS = os.path.join(ROOT, "tools/language-exceptions.txt")

# Each avoided word, with its replacement.
AVOIDED = {
    r"told|tells?|telling": "reports, shows, returns, says, notifies",
    r"nobody|somebody|whoever|anybody": "name the actor: no client, another process, the caller",
    r"anew": "again, or a new …",
    r"by hand": "manually",
    r"turned away": "rejected",
    r"is put off|are put off|was put off": "is postponed",
    r"whole numbers?": "integer",
    r"truth values?": "Boolean",
    r"from now on|by now": "name the event that it follows",
    r"as it is|as they are|as it was|as they were": "unchanged",
    r"what is to be|is to run|are to run": "must, should",
    r"so many|as many as": "the number of",
    r"those that|those of|those who|that of": "repeat the noun",
    r"in which case|of which": "split the sentence",
    r"in vain": "without success; does not find",
    r"lodgers?|lodging|lodges?": "embedded coordinator, embedded node",
    r"neighbours?|neighbourhoods?": "peers",
    r"withholds?|withheld": "blocks, blocked",
    r"is not felt|are not felt|without being felt": "has no measurable cost",
    r"at the nodes' expense": "slows the nodes down",
    r"has no room|has room|room for": "capacity",
}
AVOIDED_PATTERN = re.compile(r"\b(?:" + "|".join(AVOIDED) + r")\b", re.I)
# Code, names of parameters, and targets of links.
IGNORED = re.compile(r"`+[^`]*`+|^- (?:Parameter )?\w+:|\]\([^)]*\)")
NO_SUMMARY = re.compile(r"^(?:Who|What|Whoever|Whatever|Those|That|Its|Their|The same|So that|As of|Whether (?:it|they)\b)\b")
LONGEST, AVERAGE = 40, 22  # The maximum number of words in a sentence, and the maximum average in a document.
# Documents that quote the avoided words.
UNCHECKED = {"docs/GLOSSARY.md", "docs/internal/SEEDS.md"}
# Inputs of tests.
UNCHECKED_FOLDERS = ("Tests/Programs/Fuzz/corpus/",)
ROOTS = ["Sources", "Tests", "Benchmarks", "docs", "tools", "topologies", ".ci", "Makefile", "Containerfile"]
HASH_COMMENTS = (".sh", ".py", ".awk", ".yaml", ".yml", "Makefile", "Containerfile")  # A file without suffix: a script.
SLASH_COMMENTS = (".c", ".h", ".js", ".css")


def exceptions():
    """Returns the allowed words: (path or prefix, word)."""
    found = []
    with open(EXCEPTIONS, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                path, word, reason = (part.strip() for part in line.split("|", 2))
                assert reason, f"{EXCEPTIONS}: no reason for {path}"
                found.append((path, word.lower()))
    return found


def swift_texts(lines, has_messages):
    """Yields the comments, test names and optionally messages of a Swift file: (line number, kind, text)."""
    previous = ""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("//"):
            is_first = stripped.startswith("///") and not previous.startswith("///")
            yield number, "summary" if is_first else "comment", stripped.lstrip("/ ")
        else:
            code, _, comment = line.partition(" // ")
            if comment:
                yield number, "comment", comment.strip()
            is_name = re.match(r"@(Test|Suite)\(", stripped) or re.match(r"@(Test|Suite)\($", previous)
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line) if has_messages or is_name else []:
                if " " in text.strip():
                    yield number, "message", re.sub(r"\\\([^()]*(?:\([^()]*\)[^()]*)*\)", "", text)
        previous = stripped


def unknown_parameters(lines):
    """Yields the parameters that a doc comment describes and its declaration lacks: (line number, name)."""
    described, in_list = [], False
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("///"):
            text = stripped[3:]
            in_list = text.strip() == "- Parameters:" or in_list and not re.match(r" ?- ", text)
            match = re.match(r" - Parameter (\w+):", text) or (in_list and re.match(r" {2,}- (\w+):", text))
            if match:
                described.append((number, match.group(1)))
        elif described and not stripped.startswith("@"):
            words, depth = set(), 0
            for code in lines[number - 1:number + 30]:
                words.update(re.findall(r"\w+", code))
                depth += code.count("(") - code.count(")")
                if depth <= 0 and "(" in "".join(lines[number - 1:number + 30]) and not code.strip().endswith(("func", ",")):
                    break
            yield from (found for found in described if found[1] not in words)
            described, in_list = [], False


def comments(path, lines):
    """Yields the comments of a script, a YAML file or a C or JavaScript source file: (line number, text)."""
    is_c = path.endswith(SLASH_COMMENTS)
    pattern = re.compile(r"(?:(?:^|\s)(?://[/<]*|/\*+)|^\s*\*)\s+(.*)$" if is_c else r"(?:^|\s)#+\s+(.*)$")
    previous, is_docstring = "", False
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        quotes = stripped.count('"""') if path.endswith(".py") else 0
        begins = not is_docstring and quotes and stripped.startswith('"""') and (number <= 2 or previous.endswith(":"))
        if is_docstring or begins:
            yield number, stripped.strip('"')
            is_docstring = quotes == 1 if begins else quotes == 0
        elif comment := pattern.search(line):
            yield number, comment.group(1)
        previous = stripped


def prose(lines):
    """Yields the paragraphs of a Markdown file, without code and tables: (line number, text)."""
    paragraph, start, is_code = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        if text.startswith("```"):
            is_code = not is_code
            text = ""
        begins = re.match(r"[-*] |\d+\. |#|\||<|!\[|- \*\*", text)
        if is_code or not text or begins:
            if paragraph:
                yield start, " ".join(paragraph)
            paragraph = []
        if is_code or not text or text.startswith(("|", "#", "<", "![", "[")):
            continue
        if not paragraph:
            start = number
        paragraph.append(re.sub(r"^(?:[-*]|\d+\.) ", "", text))


def sentences(text):
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [part for part in re.split(r"(?<=[.!?:;])\s+(?=[A-Z\"'*\[`]|$)", text) if part.strip()]


def check(path, allowed):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    words = {word for prefix, word in allowed if path.startswith(prefix)}

    def avoided(number, text, kind):
        for match in AVOIDED_PATTERN.finditer(re.sub(IGNORED, "", text)):
            word = match.group().lower()
            if word not in words:
                advice = next(a for p, a in AVOIDED.items() if re.fullmatch(p, word))
                yield number, kind, f"'{word}': {advice}"

    if path.endswith(".swift"):
        for number, kind, text in swift_texts(lines, not path.startswith("Tests/")):
            if kind == "summary" and NO_SUMMARY.match(text) and "no-summary" not in words:
                yield number, "summary", f"a doc comment that begins with '{text.split()[0]}' has no summary: name the subject"
            yield from avoided(number, text, "message" if kind == "message" else "comment")
        for number, name in unknown_parameters(lines):
            yield number, "parameter", f"the declaration has no parameter '{name}'"
        return
    if path.endswith(".patch"):
        for number, line in enumerate(lines, 1):
            if line.startswith("mistake: "):
                yield from avoided(number, line, "message")
        return
    if not path.endswith(".md"):
        for number, text in comments(path, lines):
            yield from avoided(number, text, "comment")
        return
    counts = []
    for number, text in prose(lines):
        yield from avoided(number, text, "document")
        for sentence in sentences(text):
            count = len(re.findall(r"[\w'’-]+", sentence))
            counts.append(count)
            if count > LONGEST:
                yield number, "sentence", f"a sentence of {count} words: split it"
    if counts and sum(counts) / len(counts) > AVERAGE:
        yield 1, "sentence", f"{sum(counts) / len(counts):.1f} words per sentence on average: at most {AVERAGE}"


def is_checked(path):
    if path in UNCHECKED or path.startswith(UNCHECKED_FOLDERS):
        return False
    if path.endswith((".swift", ".md", ".patch", *HASH_COMMENTS, *SLASH_COMMENTS)):
        return True
    if "." in os.path.basename(path):
        return False
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read(2) == b"#!"


def files(arguments):
    found = [name for name in os.listdir(ROOT) if name.endswith(".md")] if not arguments else []
    for root in arguments or ROOTS:
        if os.path.isfile(os.path.join(ROOT, root)):
            found.append(root)
        for folder, _, names in os.walk(os.path.join(ROOT, root)):
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(filter(is_checked, found))


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--count"]
    allowed, counts = exceptions(), {}
    for path in files(arguments):
        for number, kind, text in check(path, allowed):
            counts[kind] = counts.get(kind, 0) + 1
            if "--count" not in sys.argv:
                print(f"{path}:{number}: {text}")
    if "--count" in sys.argv:
        print(counts)
    elif counts:
        print(f"check-language: {sum(counts.values())} findings; the words to use are in docs/GLOSSARY.md")
    sys.exit(bool(counts))


main()
