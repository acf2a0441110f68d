"""Trust, but verify: the entries of a store checked, and objects that it serves compared with fresh ones.

verb         `hipcache verify`
entries      each record and blob checked
compiles     stored compiles of a build, made anew and compared
delivered    a hit, compared where it was delivered
fresh        a compile by the user's own compiler
difference   two outputs that should be the same, and the report of them
"""
