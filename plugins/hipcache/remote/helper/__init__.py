"""The storage helper: the process that holds the connections to remotes (`process`, started by `start`).

start         the order of what begins; hashes compilers while the first compile starts
process       answers compiles, and sends what is queued
commands      what is asked for: a command by the native program, a list of a build
remotes       which remotes there are, and what is wrong with each
fetches       what is fetched for compiles, and in advance: `prefetch`
transfer      what goes to and fro, into the store at once or later
"""
