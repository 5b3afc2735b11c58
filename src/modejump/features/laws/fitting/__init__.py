"""Constants inside laws: fitted jointly, as a function of the law and the data, compiled.

`program` evaluates a law and its derivatives by the constants, `starts` says where the search for them begins,
`least_squares` makes its steps, `signs` has a convention for what the data leave open, and `constants` puts these
together.
"""
