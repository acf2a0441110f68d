"""Direct hits: a whole compile that nothing has changed for, served by a small native program.

`record` remembers a compile with all that it depended on; `base/native` and the C files take it from there: no plan, no
units, no Python.
"""
