"""The entry of a compile: whose command it is, and how this process ends, whatever happens."""
