from naysayer.cli import main

main()
