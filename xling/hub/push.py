"""Upload of an exported model to the Hugging Face Hub: ``xling push``."""

import os
import sys
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.hub.settings import PushConfig

NOT_UPLOADED = (manifest.FILE_NAME,)  # it names paths of this machine


def run(cfg: PushConfig) -> Answer:
    """Upload the files of an export in one commit, and compare what the Hub has with what is here.

    Returns:
        The address of the repository, with the commit and the files.

    Raises:
        UserError: ``source`` is not a complete export, the name is invalid, the Hub refuses or cannot be
            reached, or it lacks a file after the upload.
    """
    export_manifest = manifest.verify(cfg.source)
    if (made_by := export_manifest.stage) not in manifest.EXPORTS:
        raise UserError(
            f"{cfg.source} was made by {made_by!r}", ", ".join(manifest.EXPORTS), "export the model first"
        )
    # The client reads these when it is imported. Every server with the Hub's interface knows the protocol without xet.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    hub_api = HfApi(endpoint=cfg.endpoint or None)
    try:
        url = hub_api.create_repo(cfg.repo, private=cfg.private, exist_ok=True, repo_type="model")
        commit = hub_api.upload_folder(
            repo_id=url.repo_id,
            folder_path=cfg.source,
            commit_message=cfg.message or f"{export_manifest.stage} by xling {export_manifest.code_version}",
            revision=cfg.revision or None,
            ignore_patterns=list(NOT_UPLOADED),
        )
        files_on_hub = set(hub_api.list_repo_files(url.repo_id, revision=commit.oid))
    except HFValidationError as error:
        raise UserError(f"repo={cfg.repo}: {error}", "NAME or OWNER/NAME") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        fix = "set HF_TOKEN to a token that may write there" if status in (401, 403) else "try again later"
        raise UserError(f"repo={cfg.repo}: the hub refused: {_first_line(error)}", fix=fix) from None
    except Exception as error:
        # The Hub's client passes on the errors of its HTTP library, whose name differs between versions.
        if not (isinstance(error, (OSError, RuntimeError)) or type(error).__module__.startswith("httpx")):
            raise
        raise UserError(
            f"repo={cfg.repo}: the hub cannot be reached: {_first_line(error)}",
            fix="check the network, HF_ENDPOINT and endpoint=",
        ) from None
    if missing := sorted({name for name in export_manifest.files if name not in NOT_UPLOADED} - files_on_hub):
        raise UserError(
            f"repo={cfg.repo}: the hub has no {', '.join(missing)} after the upload", fix="push again"
        )
    answer_data = {"repo": url.repo_id, "url": str(url), "commit": commit.oid, "files": sorted(files_on_hub)}
    return Answer(
        f"{url} has {len(files_on_hub)} files of {Path(cfg.source)}, commit {commit.oid}", answer_data
    )


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
