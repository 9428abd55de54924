"""The contents of ZooKeeper: records, paths, the ranges of their values, the rights to write them.

Pure.
"""
