"""Compares pictures of the page with those in Tests/web/goldens and docs/pictures.

Both pictures are made small and grey. A point differs if it is darker or lighter than all points around its place in the
other picture. Shifts by a hair and other smoothing pass; missing, cut off or moved parts do not. The share of points that
may differ is relative to the points that are not background. With GOLDENS=write in the environment the pictures are written
instead.
"""

import os

from PIL import Image, ImageChops, ImageFilter

FOLDER = os.path.join(os.path.dirname(__file__), "goldens")
DOCUMENTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "pictures")
SCALE = 4        # Points of a picture per point of its small version.
DIFFERENCE = 24  # The least difference in brightness, of 255.
SHARE = 0.02     # The largest share of points that may differ.
HEIGHT = 2       # The largest difference in height, in small points.
LEVEL = 8        # The precision of a stored small picture, in brightness.


def difference(name, picture):
    """Returns how a picture differs from the small one in Tests/web/goldens, as text; None if it does not."""
    path = os.path.join(FOLDER, name + ".png")
    small = reduced(picture)
    if is_writing():
        os.makedirs(FOLDER, exist_ok=True)
        small.point(lambda value: value // LEVEL * LEVEL + LEVEL // 2).save(path, optimize=True)
        return None
    return compare(name, path, small, lambda golden: golden.convert("L"))


def document_difference(name, picture):
    """Returns how a picture differs from the one in docs/pictures, as text; None if it does not."""
    path = os.path.join(DOCUMENTS, name + ".png")
    if is_writing():
        picture.quantize(64).save(path, optimize=True)
        return None
    return compare(name, path, reduced(picture), reduced)


def is_writing():
    return os.environ.get("GOLDENS") == "write"


def reduced(picture):
    return picture.convert("L").resize(
        (max(1, picture.width // SCALE), max(1, picture.height // SCALE)), Image.Resampling.BOX)


def compare(name, path, small, read):
    try:
        golden = read(Image.open(path).convert("RGB"))
    except FileNotFoundError:
        return f"{name}: {path} does not exist; GOLDENS=write tools/test-web -k goldens writes it"
    if golden.width != small.width or abs(golden.height - small.height) > HEIGHT:
        return f"{name}: has {small.size} points and not {golden.size}"
    size = (golden.width, min(golden.height, small.height))
    golden, small = golden.crop((0, 0, *size)), small.crop((0, 0, *size))
    share = (outside(golden, small) + outside(small, golden)) / max(1, drawn(golden))
    if share <= SHARE:
        return None
    return f"{name}: {share:.1%} of the points differ; GOLDENS=write tools/test-web -k goldens writes it again"


def outside(one, other):
    """Counts the points that are darker or lighter than all points around their places in the other picture."""
    lighter = ImageChops.subtract(one, other.filter(ImageFilter.MaxFilter(3)))
    darker = ImageChops.subtract(other.filter(ImageFilter.MinFilter(3)), one)
    return sum(ImageChops.lighter(lighter, darker).histogram()[DIFFERENCE:])


def drawn(picture):
    """Counts the points that are not background, which is the most frequent brightness."""
    counts = picture.histogram()
    ground = counts.index(max(counts))
    return sum(count for brightness, count in enumerate(counts) if abs(brightness - ground) >= DIFFERENCE)
