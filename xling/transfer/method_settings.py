"""Checks of ``fit.method`` and of a frozen encoder against the other settings of fine-tuning, without torch."""

from typing import Any

from xling.core.errors import UserError

OF_LEARNING_ENCODER = (
    "freeze_embeddings",
    "freeze_layers",
    "layer_decay",
    "unfreeze_epochs",
    "task_adapter",
    "adversary",
)


def check_method(cfg: Any, defaults: Any) -> None:
    """Check the settings of a way of fine-tuning against the method, and the method against the other settings.

    Raises:
        UserError: a setting is out of range, belongs to another method, or leaves the method nothing to do.
    """
    for name, methods in (
        ("strength", ("self_distillation", "ewc")),
        ("teacher_steps", ("self_distillation",)),
        ("old_text", ("ewc",)),
        ("old_rows", ("ewc",)),
    ):
        if (value := getattr(cfg, name)) != getattr(defaults, name) and cfg.method not in methods:
            raise UserError(
                f"fit.{name}={value} changes nothing with fit.method={cfg.method}",
                f"fit.method={' or '.join(methods)}",
                "leave it out",
            )
    if cfg.method == "ewc" and not cfg.old_text:
        raise UserError(
            "fit.method=ewc without fit.old_text=",
            "fit.old_text=FILE, texts of what the model has learned, one a line",
        )
    if cfg.method == "ewc" and (cfg.freeze == "encoder" or cfg.task_adapter):
        raise UserError(
            "fit.method=ewc with fit.freeze=encoder or fit.task_adapter",
            "one of them: ewc holds weights of the encoder that learn",
        )


def refuse_learning_encoder(cfg: Any, defaults: Any) -> None:
    """Raise UserError for a setting of how the encoder learns, which changes nothing where it is frozen."""
    for name in OF_LEARNING_ENCODER:
        if (value := getattr(cfg, name)) != (default := getattr(defaults, name)):
            raise UserError(
                f"fit.{name}={str(value).lower()} with fit.freeze=encoder",
                f"fit.{name}={str(default).lower()}, the default: no weight of a frozen encoder learns",
                "leave one of them out",
            )
