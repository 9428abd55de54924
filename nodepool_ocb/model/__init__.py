"""What lives in ZooKeeper, and where: records, paths, the ranges of their values, who may write them.

Pure.
"""
