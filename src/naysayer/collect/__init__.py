"""The web app that asks people: is this a cat? Yes, no, or can't tell."""
