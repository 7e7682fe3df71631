-- additive
-- Whether the redirect URI of an OAuth provider has the id of its row and not its name, which the provider of another organization has,
-- too. An authorization server could otherwise get the codes of that other one.
alter table oauth_providers add column has_own_callback boolean not null default false;

update oauth_providers p set has_own_callback = true
 where not p.is_dynamic_client and exists (
   select 1 from oauth_providers q
    where q.provider_id = p.provider_id and q.organization_id <> p.organization_id and not q.is_dynamic_client
      and substring(q.token_url from '^[^/]*//[^/?#]*') <> substring(p.token_url from '^[^/]*//[^/?#]*')
      and (q.created_at, q.id) < (p.created_at, p.id));
