"""The language of laws: products of powers, functions of sums, and constants fitted inside them.

`expression` has features in canonical form, `text` reads them and `printing` writes them. May import: what
`modejump.features` may.
"""
