"""The attributes that noderoles see, each with its layer and the values that it hides; differences of two noderoles or
two runs.
"""
