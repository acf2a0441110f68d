"""Executors: actions that run on workers of another machine, by the Remote Execution API.

process     decides, in a compile, what may run there and what is made of how it ended
client      a compile's side of the executors, by the storage helper
servers     the storage helper's side: programs, servers, one action run
workers     the address of an executor
protocol    REAPI's messages; `installed`: where workers have the compiler themselves
"""
