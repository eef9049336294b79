"""The run of an evaluation: fine-tuning, prediction, labelling: ``xling eval``, ``xling finetune``."""
