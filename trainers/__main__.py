"""`python -m trainers`: the commands of this package alone, as a launcher such as accelerate starts them."""

from trainers.commands import main

main()
