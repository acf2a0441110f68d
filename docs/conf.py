"""The manual as a site: `python -m sphinx -W -c docs . site` (pip install '.[manual]'). docs/ is read on its own, too:
links name files of the repository. The pages outside of docs/ are on the site as well."""

project = "hipcache"
html_title = "hipcache"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_external_toc"]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/*.md", "docs/design/*.md", "**/README.md", "bench/results/*.md"]
exclude_patterns = [".*", "build", "dist", "site", "tests", "examples/*/build", "examples/*/subprojects"]
suppress_warnings = ["toc.not_included"]  # what has no place in the tree is found by links and the search
myst_heading_anchors = 4
html_theme = "furo"
html_copy_source = False
html_show_copyright = html_show_sphinx = False
