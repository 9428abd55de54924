"""The promises about speed, measured: each figure beside a floor or a peer, in the same run, on the same machine.

Wall-clock figures of a small machine move by a factor of two from one minute to the next, so only ratios count. The two
sides of one take turns (A B A B ...), and their medians are compared. A peer gets the same work, the same bytes and the
same server, with fsync on. Nothing here is imported by the product.
"""
