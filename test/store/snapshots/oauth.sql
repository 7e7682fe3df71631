-- findUsableTokens
select 
  t.id, t.tenant_id, t.provider_row_id, t.user_id, t.agent_id, t.data_key_id, t.sealed, t.token_url, t.client_id, t.scopes, t.account_label, t.is_default, t.is_dead, t.expires_at, t.generation, t.created_at, t.updated_at, p.provider_id,
  (extract(epoch from t.expires_at - now()) * 1000)::float8 as life_left_ms
      from oauth_tokens t
      join oauth_providers p on p.id = t.provider_row_id
      left join agent_connections c
        on c.oauth_token_id = t.id and c.tenant_id = t.tenant_id and c.agent_id = $1::text
     where t.tenant_id = $2 and t.provider_row_id = $3
       and (
         (t.user_id = $4::text and (t.agent_id is null or t.agent_id = $5::text))
         or (c.id is not null and (t.user_id is null or t.user_id = $6::text or $7::text is null))
       )
     order by (c.id is not null) desc, (t.agent_id is not null) desc, t.is_default desc, t.created_at desc, t.id
     limit $8;

-- findTokensInExcess
select count(*) as count from oauth_tokens t where t.tenant_id = $1 and t.provider_row_id = $2 and t.user_id = $3;

-- findTokensInExcess of an agent
select count(*) as count from oauth_tokens t where t.tenant_id = $1 and t.provider_row_id = $2 and t.user_id is null and t.agent_id is not distinct from $3;

-- claimAuthRequest
update oauth_requests set status = 'claimed', status_since = now(), claimed_by = $1
     where id = $2 and status = 'pending' and expires_at > now() returning id;

-- failInterruptedSignIns
with failed as (
      update oauth_requests r set status = 'failed', status_since = now(), failure = 'interrupted'
       where r.status = 'claimed' and starts_with(r.claimed_by, $1) returning r.tenant_id, r.provider_row_id, r.user_id, r.agent_id, r.scopes
    )
    insert into oauth_token_events (id, tenant_id, provider_id, user_id, agent_id, event_type, reason, source, scopes, detail)
    select gen_random_uuid(), f.tenant_id, p.provider_id, f.user_id, f.agent_id, 'flow_failed', 'interrupted', 'callback',
           f.scopes, 'The server was interrupted while it finished the sign-in. Start it again.'
      from failed f join oauth_providers p on p.id = f.provider_row_id;
