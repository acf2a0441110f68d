"""What the user gets, written whole or not at all."""
