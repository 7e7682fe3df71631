-- additive
-- Whether the redirect URI of an OAuth provider has the id of its row and not its name, which the provider of another organization has,
-- too. An authorization server could otherwise get the codes of that other one.
alter table oauth_providers add column has_own_callback boolean not null default false;

-- Those at the server of the oldest provider of a name keep their address.
update oauth_providers p set has_own_callback = true
 where not p.is_dynamic_client and substring(p.token_url from '^[^/]*//[^/?#]*') <> (
   select substring(q.token_url from '^[^/]*//[^/?#]*') from oauth_providers q
    where q.provider_id = p.provider_id and not q.is_dynamic_client
    order by q.created_at, q.id limit 1);
