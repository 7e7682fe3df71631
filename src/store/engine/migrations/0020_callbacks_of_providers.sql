-- additive
-- Whether the redirect URI of an OAuth provider has the id of its row and not its name, which the provider of another organization has,
-- too. An authorization server could otherwise get the codes of that other one.
alter table oauth_providers add column has_own_callback boolean not null default false;

-- Those at the server of the oldest provider of a name keep their address. Some servers ignore the case of redirect URIs.
with servers as (
  select id, lower(provider_id) as name, created_at,
         regexp_replace(lower(token_url), '^\s*(https?:)[/\\]*([^/\\?#]*).*$', '\1//\2') as server
    from oauth_providers where not is_dynamic_client
)
update oauth_providers p set has_own_callback = true from servers s
 where s.id = p.id and s.server <> (
   select q.server from servers q where q.name = s.name order by q.created_at, q.id limit 1);

-- A public client proves itself by its redirect URI alone.
update oauth_providers p set has_own_callback = true
 where not p.is_dynamic_client and not p.has_own_callback and exists (
   select 1 from oauth_providers q
    where lower(q.provider_id) = lower(p.provider_id) and not q.is_dynamic_client and not q.has_own_callback
      and lower(trim(q.client_id)) = lower(trim(p.client_id)) and 'none' in (p.token_endpoint_auth_method, q.token_endpoint_auth_method)
      and (q.created_at, q.id) < (p.created_at, p.id));
