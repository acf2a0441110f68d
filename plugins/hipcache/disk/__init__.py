"""Files and their contents: opened below a store, written whole, removed, unpacked."""
