"""Campaigns: many trials of one kind of misfortune each, in which no build may come to harm (`scripts/campaign.py`)."""
