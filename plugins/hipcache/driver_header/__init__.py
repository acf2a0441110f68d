"""The header that the driver puts before each HIP source (from clang 16 on), precompiled: a way to run a front end.

`__clang_hip_runtime_wrapper.h` is the same text before every source, and most of an ordinary pass. Why a pass with
it precompiled comes to the same bytes: docs/design/driver_header.md.

    header   which passes may use it, its key, the commands that make and use it, what a pass may say
    entry    what is stored of it: the PCH file, what it was made of, how often it was wanted
    trust    which comparisons must come first, and when it is switched off
    use      a pass with it
"""
