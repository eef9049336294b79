"""Code-switched text from aligned sentence pairs or dictionaries: ``xling corpus codeswitch``."""
