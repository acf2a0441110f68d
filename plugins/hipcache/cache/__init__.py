"""Where results of actions are looked up and published, over the protocols of `storage`."""
