"""The web app that does not want to know: private questions."""
