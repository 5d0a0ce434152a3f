"""Draws the pictures of docs/pictures with the programs of the debug build: see tools/pictures.

With --check, draws the pictures into .build/pictures and compares them with docs/pictures: exactly, or word by word if
they show times and states that differ from run to run.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

try:
    import pyte
except ImportError:
    pyte = None

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, ".build/debug")
LIMIT = 60  # The longest wait for a text. Unit: seconds.
WIDTH, HEIGHT, MARGIN = 8.43, 18, 14  # The size of a character, a line and the border. Unit: pixels.
BACKGROUND, FOREGROUND = "#1e2127", "#d7dae0"
COLORS = {
    "black": "#5c6370", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "yellow": "#e5c07b",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#ffffff", "default": FOREGROUND,
}


class Session:
    """A temporary directory for topologies, isolated from all other topologies."""

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="pr-")
        self.environment = {
            "PATH": PROGRAMS + ":/usr/bin:/bin", "HOME": self.root, "PIPERUNTIME_ROOT": self.root, "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        return self

    def __exit__(self, *_):
        self.run("orchestrator down", check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, command, check=True):
        result = subprocess.run(
            ["/bin/bash", "-c", command], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, timeout=LIMIT)
        if check and result.returncode != 0:
            sys.exit(f"pictures: error: '{command}' exited with code {result.returncode}: {result.stderr}")
        return result.stdout

    def screen(self, arguments, columns, rows, wanted):
        """Runs a program on a terminal until its screen contains all wanted texts, and returns the screen."""
        terminal = pyte.Screen(columns, rows)
        stream = pyte.ByteStream(terminal)
        child, descriptor = pty.fork()
        if child == 0:
            os.chdir(ROOT)
            os.execvpe(arguments[0], arguments, self.environment)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(child, signal.SIGWINCH)
        try:
            end = time.monotonic() + LIMIT
            while time.monotonic() < end:
                if select.select([descriptor], [], [], 0.1)[0]:
                    stream.feed(os.read(descriptor, 65536))
                elif all(any(text in line for line in terminal.display) for text in wanted):
                    return terminal
            sys.exit(f"pictures: error: '{' '.join(arguments)}' did not show {wanted} within {LIMIT} s")
        finally:
            os.kill(child, signal.SIGTERM)
            os.close(descriptor)
            os.waitpid(child, 0)


def frame(columns, rows, body, style=""):
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f"<style>text {{ fill: {FOREGROUND} }} {style}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n{body}</svg>\n')


def line(row, runs, attributes=""):
    """A line of text: runs of (column, text, color, is bold)."""
    # SVG renderers treat consecutive spaces differently.
    runs = [
        (column + word.start(), word.group(), color, bold)
        for column, text, color, bold in runs for word in re.finditer(r"\S+( \S+)*", text)]
    spans = "".join(
        f'<tspan x="{MARGIN + column * WIDTH:.1f}"'
        + (f' fill="{color}"' if color != FOREGROUND else "") + (' font-weight="bold"' if bold else "")
        + f' textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</tspan>'
        for column, text, color, bold in runs)
    return f'<text y="{MARGIN + (row + 0.75) * HEIGHT:.1f}"{attributes}>{spans}</text>\n' if spans else ""


def draw_screen(terminal):
    body = ""
    for row in range(terminal.lines):
        cells = [terminal.buffer[row][column] for column in range(terminal.columns)]
        runs, start = [], 0
        for column in range(1, terminal.columns + 1):
            look = lambda cell: (cell.fg, cell.bg, cell.bold, cell.reverse)
            if column < terminal.columns and look(cells[column]) == look(cells[start]):
                continue
            cell, text = cells[start], "".join(c.data for c in cells[start:column])
            if text.strip():
                color = COLORS.get(cell.fg, "#" + cell.fg if re.fullmatch("[0-9a-f]{6}", cell.fg) else FOREGROUND)
                runs.append((start, text, color, cell.bold or cell.reverse))
            start = column
        body += line(row, runs)
    return frame(terminal.columns, terminal.lines, body)


def screen():
    """The terminal screen of a running topology."""
    with Session() as session:
        session.run("orchestrator up --wait topologies/elevator.yaml")
        session.run("orchestrator wait motor=moving --timeout 60s")
        wanted = ["door", "motor", "display", "passengers", "STATE"]
        return draw_screen(session.screen(["orchestrator", "ui"], 96, 16, wanted))


def kill():
    """An animation: a node is killed and returns in the same state."""
    ps = "orchestrator ps motor"
    with Session() as session:
        session.run("orchestrator up --wait topologies/lift.yaml")
        session.run("orchestrator send lift '{\"go\":{\"floor\":3}}'")
        before = session.run(ps)
        head, row = before.splitlines()[:2]
        # The numbers of this column end below its name.
        number = row[:head.index("PID") + len("PID")].split()[-1]
        session.run(f"kill -9 {number}")
        session.run("orchestrator wait motor=moving --timeout 60s")
        after = session.run(ps)
    shown = [
        (0.5, "$ orchestrator send lift '{\"go\":{\"floor\":3}}'"), (1.5, "lift: {\"go\":{\"floor\":3}} committed"),
        (2.5, f"$ {ps}"), *((3.0, text) for text in before.splitlines()),
        (5.0, f"$ kill -9 {number}"), (6.5, f"$ {ps}"), *((7.0, text) for text in after.splitlines()),
    ]
    columns = max(len(text) for _, text in shown) + 2
    total, body, style = 12.0, "", ""
    for row, (second, text) in enumerate(shown):
        percent = 100 * second / total
        style += (f"@keyframes l{row} {{ 0%, {percent:.1f}% {{ opacity: 0 }} {percent + 0.1:.1f}%, 100% {{ opacity: 1 }} }} "
                  f".l{row} {{ animation: l{row} {total:.0f}s infinite }} ")
        color = COLORS["green"] if text.startswith("$") else FOREGROUND
        body += line(row, [(0, text, color, text.startswith("$"))], f' class="l{row}"')
    style += "@media (prefers-reduced-motion: reduce) { text { animation: none !important } } "
    return frame(columns, len(shown), body, style)


def graph(*arguments):
    with Session() as session:
        # Without Graphviz, whose layout depends on its version.
        session.environment["PATH"] = PROGRAMS
        return session.run("orchestrator graph -o svg " + " ".join(arguments))


def words(picture):
    """The words of a picture that are the same in every run."""
    text = re.sub(r"<style>.*?</style>", "", picture, flags=re.S)
    text = re.sub(r"<[^>]*>", " ", text)
    return set(re.findall(r"[A-Z]{3,}|\$ [a-z]+ [a-z]+|\b(?:door|motor|display|passengers|lift|committed)\b", text))


PICTURES = {
    "lift.svg": (lambda: graph("topologies/lift.yaml"), None),
    "door.svg": (lambda: graph("topologies/elevator.yaml", "door"), None),
    "screen.svg": (screen, words),
    "kill.svg": (kill, words),
}


def main():
    check = "--check" in sys.argv[1:]
    folder = os.path.join(ROOT, ".build/pictures" if check else "docs/pictures")
    os.makedirs(folder, exist_ok=True)
    failed = False
    for name, (draw, reduce) in PICTURES.items():
        if name == "screen.svg" and pyte is None:
            if not check:
                sys.exit("pictures: error: the Python package 'pyte' is missing; connect to PyPI and try again")
            continue
        picture = draw()
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(picture)
        if not check:
            continue
        with open(os.path.join(ROOT, "docs/pictures", name), encoding="utf-8") as file:
            known = file.read()
        reduce = reduce or (lambda text: text)
        if reduce(known) != reduce(picture):
            failed = True
            print(f"pictures: error: docs/pictures/{name} is out of date; compare it with .build/pictures/{name}, and run "
                  "'make pictures'")
    sys.exit(failed)


main()
