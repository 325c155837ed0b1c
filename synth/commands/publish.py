"""`synth publish`: a finished dataset folder to the Hugging Face Hub."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth publish rows/ --repo-id me/execution-rows --dry-run
  HF_TOKEN=hf_... synth publish rows/ --repo-id me/execution-rows --private
"""


@click.command(epilog=EPILOG, short_help="Send a dataset folder to the Hugging Face Hub.")
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--repo-id", required=True, metavar="USER/NAME", help="Dataset repository.")
@click.option("--private", is_flag=True, help="Make the repository private if it is new.")
@click.option("--dry-run", is_flag=True, help="List what would be sent; no network, no token.")
@click.option(
    "--token-env",
    default="HF_TOKEN",
    show_default=True,
    metavar="NAME",
    help="Environment variable that holds the token (else: the login of `hf auth login`).",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was (or would be) sent as JSON.")
def publish(
    folder: str, repo_id: str, private: bool, dry_run: bool, token_env: str, as_json: bool
) -> None:
    """Send the dataset in DIR to the Hugging Face Hub, card included.

    The folder is checked first: every file against the manifest, the card against the rules of the
    Hub. Nothing is sent if anything is wrong. Only the listed files are sent.
    """
    import json

    from synth.publish import REPLACED, find_token, plan, send

    what = plan(folder, repo_id)
    url = None
    if not dry_run:
        url = send(what, token=find_token(token_env), private=private)
    if as_json:
        click.echo(json.dumps({**what.to_json(), "sent": not dry_run, "url": url}, indent=2))
        return
    width = max(len(item.path) for item in what.items)
    for item in what.items:
        click.echo(f"{item.path:<{width}}  {item.bytes:>13,} bytes")
    verb = "would be sent" if dry_run else "sent"
    click.echo(f"{len(what.items)} files, {what.total_bytes:,} bytes {verb} to {repo_id}")
    click.echo(f"older {' and '.join(REPLACED)} files there are replaced")
    if url:
        click.echo(url)
