-- createDeliveries
select place.event_id as "from", (select last_value from events_id_seq) as given, (
      select case when count(*) < $1 then $2::bigint else max(id) end
        from (select id from events where id > place.event_id and id <= $3 order by id limit $4) page
    ) as "upTo" from (select coalesce((select event_id from webhook_position), 0) as event_id) place;

-- createDeliveries
with place as (
      insert into webhook_position (event_id) values ($1)
      on conflict (singleton) do update set event_id = excluded.event_id where webhook_position.event_id = $2
      returning 1
    )
    insert into webhook_deliveries (id, webhook_id, tenant_id, event_id, type, payload, status, next_attempt_at)
    select gen_random_uuid(), w.id, e.tenant_id, e.id, e.kind, 
      jsonb_build_object('type', e.kind, 'timestamp', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', jsonb_build_object('id', e.id::text, 'type', e.kind, 'tenant_id', e.tenant_id, 'data', 
      case when e.data ->> 'message' like '%pierhead env set DEPLOYMENT %' and d.name is not null
        then jsonb_set(e.data, '{message}', to_jsonb(replace(e.data ->> 'message', 'env set DEPLOYMENT ', 'env set ' || d.name || ' ')))
        else e.data end,
          'created_at', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          'deployment_id', e.deployment_id, 'deployment_name', coalesce(d.name, e.data ->> 'name'),
          'revision_id', e.revision_id))::text, 'pending', now()
      from place, events e
      join webhooks w on w.tenant_id = e.tenant_id and w.enabled and w.after_event < e.id
       and (w.types is null or e.kind = any(w.types))
       and (w.deployment_ids is null or e.deployment_id = any(w.deployment_ids))
      left join deployments d on d.id = e.deployment_id
     where e.id > $3 and e.id <= $4 order by e.id, w.id;

-- claimDeliveries
with heads as (
      select h.id, w.id as webhook_id, w.tenant_id, h.n from webhooks w cross join lateral (
          select p.id, row_number() over (order by p.seq) as n,
                 bool_and(p.next_attempt_at <= now() and ("p"."lease_until" is null or "p"."lease_until" < now())) over (order by p.seq) as is_due
            from (select d.id, d.seq, d.next_attempt_at, d.lease_until from webhook_deliveries d
                   where d.webhook_id = w.id and d.status = 'pending' and d.attempts < $1
                   order by d.seq limit $2) p) h
       where w.enabled and h.is_due
    ), overtaken as (
      select d.id, d.webhook_id, d.tenant_id, 0 as n
        from webhook_deliveries d join webhooks w on w.id = d.webhook_id and w.enabled
       where d.status = 'pending' and d.attempts >= $3 and d.next_attempt_at <= now() and ("d"."lease_until" is null or "d"."lease_until" < now())
       limit $4
    ), due as (
      -- The first messages of all webhooks come first.
      select *, row_number() over (partition by tenant_id order by rank, webhook_id) as place
        from (select *, n as rank from heads union all select *, 2 as rank from overtaken) found
    ), shared as (
      select * from due where place <= coalesce((select s.max from unnest($5::uuid[],
    $6::int[]) as s (tenant_id, max) where s.tenant_id = due.tenant_id), $7::int) order by rank limit $8
    ), locked as (
      select d.id from webhook_deliveries d
       where d.id in (select id from shared) and d.status = 'pending' and ("d"."lease_until" is null or "d"."lease_until" < now()) for update skip locked
    ), numbered as (
      select h.id, h.n, row_number() over (partition by h.webhook_id, h.n = 0 order by h.n) as m
        from shared h join locked l on l.id = h.id
    ), chosen as (
      -- If another server has just taken one, the ones behind it are not claimed either.
      select id from numbered where n = m or n = 0
    )
    update webhook_deliveries d
       set lease_owner = $9, lease_until = now() + $10 * interval '1 millisecond',
           attempts = d.attempts + 1
      from chosen c, webhooks w where d.id = c.id and w.id = d.webhook_id
    returning d.id, d.seq, d.webhook_id as "webhookId", d.tenant_id as "tenantId", w.origin, w.format, d.payload, d.attempts,
              w.data_key_id as "keyId", w.sealed;
