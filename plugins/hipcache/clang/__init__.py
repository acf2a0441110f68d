"""What is known of clang: its commands, the plans of its driver, cc1, CUIDs; and the formats that it writes."""
