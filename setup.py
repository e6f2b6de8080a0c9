"""Builds the compiled inner loops, where there is a C compiler; all else is in pyproject.toml.

They are optional: without a compiler, or without Python's headers, penstock is installed without them, and does the
same in numpy.
"""

from glob import glob

import numpy
from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "penstock.native._kernels",
            sorted(glob("src/penstock/native/*.c")),
            depends=["src/penstock/native/kernels.h"],
            include_dirs=[numpy.get_include()],
            optional=True,
        )
    ]
)
