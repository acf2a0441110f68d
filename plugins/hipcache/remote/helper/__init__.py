"""The storage helper: the process that holds the connections to remotes (`process`, started by `start`).

question      what the native program asks, at a door
remotes       which remotes there are, each by its `connection`
fetches       what is fetched for compiles, and in advance: `prefetch`, `neighbours`
transfer      what goes to and fro; `arrivals`, `backlog`: puts it into the store, now or later
adoption      takes whole compiles into the store
upload        sends what is queued
compilers     hashes compilers while the first compile starts
origins       notes where records came from
"""
