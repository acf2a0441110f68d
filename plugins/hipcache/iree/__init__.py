"""IREE modules that are made: what a .vmfb is for, whether it fits a device, which buffers the run time hands on."""
