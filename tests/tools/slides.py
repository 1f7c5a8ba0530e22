"""Export lessons to slides that need no network: ``python -m tests.tools.slides --reveal FOLDER``.

FOLDER is where npm put reveal.js (``npm install --prefix slides-tools reveal.js@4`` makes
``slides-tools/node_modules/reveal.js``).  The pages and what they need go into one folder, which
can be carried to another machine and opened there as files.  What is shown are the committed
outputs: a slide has no kernel, so predictions and quizzes appear as text and sliders do not move.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from jinja2 import DictLoader
from nbconvert import SlidesExporter

from tests.support.notebooks import lesson_paths

# nbconvert's page asks other machines for jquery, requirejs, mathjax and mermaid.  The lessons use
# none of them, and reveal.js starts without.
_TEMPLATE = """
{%- extends "reveal/index.html.j2" -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_css -%}
<style>
  :root { --r-heading-text-transform: none !important; --r-main-font-size: 24px !important; }
  .reveal .slides { text-align: left; }
  .reveal h1, .reveal h2, .reveal h3 { text-transform: none !important; }
  .reveal h1 { font-size: 1.6em; } .reveal h2 { font-size: 1.4em; } .reveal h3 { font-size: 1.2em; }
  .reveal img { max-height: 460px !important; max-width: 100%; margin: 0 !important; }
  .reveal pre { width: 100%; margin: 0; box-shadow: none; font-size: 0.8em; }
  .reveal table { font-size: 0.8em; }
  .reveal .jp-Cell { padding: 0.1em 0; }
  .reveal .jp-OutputPrompt, .reveal .jp-InputPrompt { display: none; }
</style>
{%- endblock -%}
{%- block footer_js -%}
<script src="reveal.js/dist/reveal.js"></script>
<script>
  Reveal.initialize({
    controls: true, progress: true, hash: true, slideNumber: true, transition: "none",
    width: 1280, height: 720, center: false,
  });
  // Everything of a slide is in view, its fragments too: what would be taller is made smaller.
  const HEIGHT = 720, SMALLEST = 0.4;
  const fit = () => {
    for (const slide of document.querySelectorAll(".reveal .slides section")) {
      if (slide.querySelector("section")) continue;
      const shown = [slide, slide.parentElement].filter((part) => part.tagName === "SECTION");
      const before = shown.map((part) => part.style.cssText);
      shown.forEach((part) => { part.style.cssText += "; display: block !important"; });
      let scale = 1;
      slide.style.zoom = scale;
      while (slide.scrollHeight * scale > HEIGHT && scale > SMALLEST) {
        scale = Math.round(100 * scale - 5) / 100;
        slide.style.zoom = scale;
      }
      slide.dataset.scale = scale;
      slide.dataset.height = Math.round(slide.scrollHeight * scale);
      shown.forEach((part, place) => { part.style.cssText = before[place]; });
      slide.style.zoom = scale;
    }
    document.body.dataset.fitted = "true";
    Reveal.layout();
  };
  const drawn = () => Promise.all([...document.images].map((image) => image.decode()));
  Reveal.on("ready", () => drawn().then(fit, fit));
</script>
{%- endblock -%}
""".strip()

_LOADED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"'\s)]+)""",
    re.IGNORECASE,
)


def loaded_from_elsewhere(page: str) -> list[str]:
    """List the addresses of other machines that a page loads by itself; links don't count."""
    return [first or second for first, second in _LOADED.findall(page)]


def export(lesson: Path, folder: Path) -> Path:
    """Write a lesson's slides.

    Parameters
    ----------
    lesson : Path
        A notebook with slideshow metadata.
    folder : Path
        Where the page goes; `bring_reveal` puts beside it what it needs.

    Raises
    ------
    ValueError
        If the page would load something from another machine.
    """
    exporter = SlidesExporter(
        template_file="without_network.html.j2",
        extra_loaders=[DictLoader({"without_network.html.j2": _TEMPLATE})],
        reveal_url_prefix="reveal.js",
        reveal_theme="white",  # the other themes load fonts
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    page, _ = exporter.from_filename(str(lesson))
    if elsewhere := loaded_from_elsewhere(page):
        raise ValueError(f"the slides of {lesson.name} would load {', '.join(elsewhere)}")
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{lesson.stem}.slides.html"
    out.write_text(page, encoding="utf-8")
    return out


def bring_reveal(reveal: Path, folder: Path) -> None:
    """Copy reveal.js to where the pages look for it.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    """
    if not (reveal / "dist" / "reveal.js").is_file():
        raise FileNotFoundError(
            f"there is no reveal.js in {reveal}: run `npm install --prefix slides-tools "
            "reveal.js@4` and give slides-tools/node_modules/reveal.js"
        )
    target = folder / "reveal.js" / "dist"
    shutil.copytree(reveal / "dist", target, dirs_exist_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """Export the lessons that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.slides", description=__doc__)
    parser.add_argument("lessons", nargs="*", type=Path, help="all of them when none is named")
    parser.add_argument("--reveal", type=Path, required=True, help="the folder of reveal.js")
    parser.add_argument("--to", type=Path, default=Path("slides"), help="where the pages go")
    options = parser.parse_args(arguments)
    try:
        bring_reveal(options.reveal, options.to)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    for lesson in options.lessons or lesson_paths():
        print(export(lesson, options.to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
