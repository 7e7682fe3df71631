"""What an agent does with the public SDK `langchain-auth`, told step by step in JSON lines."""

import asyncio
import json
import sys

from langchain_auth import Client

base_url, provider_url = sys.argv[1:]


def tell(**said):
    print(json.dumps(said), flush=True)


async def refusal_of(call):
    try:
        await call
    except Exception as error:
        return str(error)


async def main():
    client = Client(api_url=base_url)
    provider = await client.create_oauth_provider(
        provider_id="sdk",
        name="Example",
        client_id="c",
        client_secret="s",
        auth_url=f"{provider_url}/authorize",
        token_url=f"{provider_url}/token",
        uses_pkce=True,
    )
    tell(created=provider.provider_id, listed=[one.provider_id for one in await client.list_oauth_providers()])
    tell(again=await refusal_of(client.create_oauth_provider("sdk", "x", "c", "s", "https://a.example", "https://b.example")))

    begun = await client.authenticate(provider="sdk", scopes=["read"], user_id="alice", agent_id="helper")
    tell(status=begun.status, url=begun.url)
    ended = await client.wait_for_completion(begun.auth_id, timeout=60)
    kept = await client.authenticate(provider="sdk", scopes=["read"], user_id="alice", agent_id="helper")
    tell(waited=ended.token, kept=kept.token, known=kept.status)

    denied = await client.authenticate(provider="sdk", scopes=["read"], user_id="bob")
    tell(status=denied.status, url=denied.url)
    tell(denied=await refusal_of(client.wait_for_completion(denied.auth_id, timeout=60)))
    late = await client.authenticate(provider="sdk", scopes=["read"], user_id="carol")
    tell(late=await refusal_of(client.wait_for_completion(late.auth_id, timeout=1)))

    tell(exists=(await client.check_token_exists("sdk")).has_token, revoked=(await client.revoke_tokens("sdk")).message)
    renamed = await client.update_oauth_provider("sdk", name="Renamed")
    tell(renamed=renamed.name, deleted=(await client.delete_oauth_provider("sdk")).message)
    tell(gone=await refusal_of(client.get_oauth_provider("sdk")))


asyncio.run(main())
