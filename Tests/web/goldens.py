"""Compares screenshots of the page with the golden pictures in Tests/web/goldens and docs/pictures.

Reduces both pictures to a small gray version. A pixel differs if it is darker or lighter than all pixels around its
position in the other picture. So tiny shifts and different antialiasing pass, but missing, clipped or moved parts fail.
The share of differing pixels is relative to the pixels that are not background. With GOLDENS=write in the environment,
writes the golden pictures instead.
"""

import os

from PIL import Image, ImageChops, ImageFilter

FOLDER = os.path.join(os.path.dirname(__file__), "goldens")
DOCUMENTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "pictures")
SCALE = 4        # Pixels of a screenshot per pixel of its small version.
DIFFERENCE = 24  # The smallest difference in brightness that counts, of 255.
SHARE = 0.02     # The largest share of pixels that may differ.
HEIGHT = 2       # The largest difference in height that passes. Unit: pixels of the small version.
LEVEL = 8        # The precision of the brightness of a golden picture.


def difference(name, picture):
    """Compares a screenshot with the golden picture in Tests/web/goldens. Returns an error message or None."""
    path = os.path.join(FOLDER, name + ".png")
    small = reduced(picture)
    if is_writing():
        os.makedirs(FOLDER, exist_ok=True)
        small.point(lambda value: value // LEVEL * LEVEL + LEVEL // 2).save(path, optimize=True)
        return None
    return compare(name, path, small, lambda golden: golden.convert("L"))


def document_difference(name, picture):
    """Compares a screenshot with the picture in docs/pictures. Returns an error message or None."""
    path = os.path.join(DOCUMENTS, name + ".png")
    if is_writing():
        picture.quantize(160).save(path, optimize=True)
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
        return f"{name}: the picture has {small.size} pixels, not {golden.size}"
    size = (golden.width, min(golden.height, small.height))
    golden, small = golden.crop((0, 0, *size)), small.crop((0, 0, *size))
    share = (outside(golden, small) + outside(small, golden)) / max(1, drawn(golden))
    if share <= SHARE:
        return None
    return f"{name}: {share:.1%} of the pixels differ; GOLDENS=write tools/test-web -k goldens writes it again"


def outside(picture, other):
    """Counts the pixels that are darker or lighter than all pixels around their positions in the other picture."""
    lighter = ImageChops.subtract(picture, other.filter(ImageFilter.MaxFilter(3)))
    darker = ImageChops.subtract(other.filter(ImageFilter.MinFilter(3)), picture)
    return sum(ImageChops.lighter(lighter, darker).histogram()[DIFFERENCE:])


def drawn(picture):
    """Counts the pixels that are not background. The background is the most frequent brightness."""
    counts = picture.histogram()
    background = counts.index(max(counts))
    return sum(count for brightness, count in enumerate(counts) if abs(brightness - background) >= DIFFERENCE)
