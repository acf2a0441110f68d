"""Units found in the store or compiled, and put together into the object."""
