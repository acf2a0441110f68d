"""Action results in the store: by key (`content`), or by key and trace (`manifest`); their records (`entries`)."""
