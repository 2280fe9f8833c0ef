"""Runs trained together on one device: source, recipe, networks, optimisers, population."""
