"""The evaluation suites, one file each, registered in `xling.eval.suite.SUITES`."""
