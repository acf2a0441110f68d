"""What every package stands on: errors, values, patterns, what is shared with C, and the features that are there."""
