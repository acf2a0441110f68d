"""The storage helper: the process that holds the connections to remotes (`process`), which of them there are
(`remotes`), what goes to and fro (`transfer`), and in which form (`carried`)."""
