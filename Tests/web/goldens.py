"""Compares pictures of the page with those in Tests/web/goldens.

Both are made small and grey. A point is another one if it is darker or lighter than all those around its place in the
other picture: what is moved by a hair, or smoothed otherwise, passes; what is gone, cut off or elsewhere does not. How
many may be is a share of what is drawn, and not of the ground. With GOLDENS=write in the environment the pictures are
written instead.
"""

import os

from PIL import Image, ImageChops, ImageFilter

FOLDER = os.path.join(os.path.dirname(__file__), "goldens")
SCALE = 4        # So many points are one of a golden picture.
DIFFERENCE = 24  # In brightness, of 255.
SHARE = 0.02     # Of the points that are drawn.
HEIGHT = 2       # By which it may be higher or lower.
LEVEL = 8        # To so much brightness a golden picture is exact.


def difference(name, picture):
    """What is wrong with a picture, in words; nothing where it is like the golden one."""
    path = os.path.join(FOLDER, name + ".png")
    small = picture.convert("L").resize(
        (max(1, picture.width // SCALE), max(1, picture.height // SCALE)), Image.Resampling.BOX)
    if os.environ.get("GOLDENS") == "write":
        os.makedirs(FOLDER, exist_ok=True)
        small.point(lambda value: value // LEVEL * LEVEL + LEVEL // 2).save(path, optimize=True)
        return None
    try:
        golden = Image.open(path).convert("L")
    except FileNotFoundError:
        return f"{name}: there is no golden picture; GOLDENS=write tools/test-web -k goldens makes it"
    if golden.width != small.width or abs(golden.height - small.height) > HEIGHT:
        return f"{name}: has {small.size} points and not {golden.size}"
    size = (golden.width, min(golden.height, small.height))
    golden, small = golden.crop((0, 0, *size)), small.crop((0, 0, *size))
    share = (outside(golden, small) + outside(small, golden)) / max(1, drawn(golden))
    return f"{name}: {share:.1%} of what is drawn looks otherwise" if share > SHARE else None


def outside(one, other):
    """How many points are darker or lighter than all those around their places in the other picture."""
    lighter = ImageChops.subtract(one, other.filter(ImageFilter.MaxFilter(3)))
    darker = ImageChops.subtract(other.filter(ImageFilter.MinFilter(3)), one)
    return sum(ImageChops.lighter(lighter, darker).histogram()[DIFFERENCE:])


def drawn(picture):
    """How many points are not of the ground, which has the most of one brightness."""
    counts = picture.histogram()
    ground = counts.index(max(counts))
    return sum(count for brightness, count in enumerate(counts) if abs(brightness - ground) >= DIFFERENCE)
