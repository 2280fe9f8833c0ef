"""The web apps that ask people: yes/no labelling, and the private survey."""
