"""A remote cache: action results and contents on a server that a team shares.

`client` is all that a compile loads of it, after a local miss: it asks the *storage helper* (`hipcache.helper`), a
process of this user's that holds the connections, keeps watch over what the remote costs (`breaker`), puts what it gets
into the local store, and uploads what is queued (`queue`). Only the helper loads the libraries of the protocols: a
server that hangs, or a library that does, can hold up nothing but the helper.

    address    which remote, in which mode; `credentials`: what it is shown
    envelope   a record as a REAPI ActionResult
    backend    what each protocol can do; `reapi` (grpc), `objects` (http, s3, gs, az)
"""
