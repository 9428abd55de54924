"""ZooKeeper: records are read, written in versioned transactions, cached and locked.

With ``testing`` the only folder that imports kazoo.
"""
