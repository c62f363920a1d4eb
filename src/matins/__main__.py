from matins.app import main

main()
