"""What every room uses: checks of arguments, files that are whole, progress."""
