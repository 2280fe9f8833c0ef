"""What pytest must not collect: the Triton kernels need a GPU's compiler to import."""

collect_ignore = ["src/naysayer/engine/_triton.py"]
