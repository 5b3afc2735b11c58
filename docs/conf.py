"""Configuration of the documentation."""

from importlib.util import find_spec
from pathlib import Path

import modejump

project = "modejump"
author = "The modejump developers"
copyright = "2026, The modejump developers"
release = modejump.__version__
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]

autosummary_generate = True
autodoc_typehints = "none"
# Members are listed by the class template, which leaves out what scikit-learn adds.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "abort_on_example_error": True,
    "show_memory": False,
    # The page of computation times would ask the network for its table.
    "write_computation_times": False,
}

# Formulas are typeset in the browser, by a copy of MathJax that comes with a package: no page asks the network.
mathjax = find_spec("sphinx-mathjax-offline")
assert mathjax is not None and mathjax.origin is not None, "run: pip install .[docs]"
html_static_path = ["_static", str(Path(mathjax.origin).parent / "static" / "mathjax" / "tex-svg.js")]
mathjax_path = "tex-svg.js"
html_css_files = ["wide.css"]
html_theme = "pydata_sphinx_theme"
html_title = "modejump"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "navbar_end": ["theme-switcher"]}
