"""`crawl identity`: who the crawl says it is, and the keys that a site can check it by."""

import json
from pathlib import Path

import click

from crawl_platform import settings as settings_module
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import json_option, print_json
from crawl_platform.fetch.signing import DIRECTORY_PATH, DIRECTORY_TYPE, ensure_key, key_path


@click.command()
@click.option("--jwks", is_flag=True, help="Print the key directory alone: the file to publish.")
@json_option
@home_option
def identity(jwks: bool, as_json: bool, home: Path) -> None:
    """Show how sites can recognise this crawl; makes its signing key where there is none.

    To sign requests, publish what --jwks prints at the origin that signing.agent names, and set
    signing.enabled. The private key stays in its file.
    """
    settings = settings_module.load(home)
    path = key_path(settings)
    key = ensure_key(path)
    if jwks:
        click.echo(json.dumps(key.jwks(), indent=2))
        return
    signing = settings.signing
    directory = f"{signing.agent or 'https://YOUR-ORIGIN'}{DIRECTORY_PATH}"
    if as_json:
        facts = {"user_agent": settings.identity.user_agent, "robots_name": settings.identity.agent}
        facts |= {"keyid": key.thumbprint, "key_file": str(path), "directory": directory}
        print_json({**facts, "signed": signing.enabled, "jwks": key.jwks()})
        return
    click.echo(f"user agent:  {settings.identity.user_agent}")
    click.echo(f"in robots:   {settings.identity.agent}")
    click.echo(f"key:         {key.thumbprint} (private half: {path})")
    click.echo(f"published:   {directory} ({DIRECTORY_TYPE})")
    click.echo(f"signed:      {'yes' if signing.enabled else 'no (signing.enabled is false)'}")
