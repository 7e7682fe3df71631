-- saveArtifact
with wanted as (
      select distinct on (tenant_id, key) * from jsonb_to_recordset($1::jsonb)
        as w ("id" uuid, "tenant_id" uuid, "key" text, "manifest" jsonb) order by tenant_id, key
    ), known as (
      select a.id, a.tenant_id, a.key from wanted w join artifacts a on a.tenant_id = w.tenant_id and a.key = w.key
       where a.manifest = w.manifest and a.last_used_at > now() - '1 hour'::interval
    ), saved as (
      insert into artifacts (id, tenant_id, key, manifest)
      select id, tenant_id, key, manifest from wanted w
       where not exists (select from known k where k.tenant_id = w.tenant_id and k.key = w.key)
      on conflict (tenant_id, key) do update set last_used_at = now(), manifest = excluded.manifest
      returning id, tenant_id, key
    )
    select id, tenant_id, key from known union all select id, tenant_id, key from saved;

-- claimImageRemoval
with wanted as (
      select i.reference, i.repository from image_removals i join listeners l on l.id = i.listener_id
       where i.listener_id = $1 and i.repository = l.facts ->> 'image_registry'
         and i.next_at <= now() and coalesce(i.leased_until, now()) <= now()
         and not exists (
           select from revisions r join listeners o on o.id = (r.source_config ->> 'listener_id')::uuid
            where r.status = 'BUILDING' and o.facts ->> 'image_registry' = i.repository
              and o.tenant_id is not distinct from l.tenant_id)
         and not exists (select from artifacts a where a.manifest ->> 'digest' = i.reference)
         and not exists (
           select from revisions r where r.status <> all($2::text[])
              and r.source_revision_config ->> 'image_uri' like '%@' || i.reference)
       order by i.created_at limit $3 for update of i skip locked
    )
    update image_removals i set lease_id = $4, leased_until = now() + $5 * interval '1 second'
      from wanted w
     where i.listener_id = $6 and i.repository = w.repository and i.reference = w.reference
    returning i.reference;

-- claimBuild
with moved as (
      update revisions set status = 'BUILDING', status_since = now(), deadline_at = $1, updated_at = now()
       where id = $2 and status = 'AWAITING_BUILD' returning id, deployment_id, tenant_id
    ), wanted as (
      select id from moved
      union select id from revisions where id = $3 and status = 'BUILDING'
    ), before as (
      select revision_id, pid, pid_started, status, started_at, lease_until from builds
       where revision_id = $4 for update
    ), claimed as (
      insert into builds (revision_id, deployment_id, status, owner, lease_until)
      select id, $5, 'running', $6, now() + $7 * interval '1 millisecond' from wanted
       where (select count(*) from before) >= 0 -- read first: a row that this statement changes would not be seen
      on conflict (revision_id) do update
         set owner = excluded.owner, lease_until = excluded.lease_until, status = 'running', pid = null, pid_started = null,
             result = null, started_at = now(), finished_at = null, attempts = builds.attempts + 1
       where builds.status = 'cancelled' or (builds.status = 'running' and builds.lease_until < now())
      returning revision_id
    ), again as ( -- the build starts from the beginning, so its time limit does too
      update revisions set deadline_at = $8 from claimed c where id = c.revision_id and status = 'BUILDING'
    ), abandoned as (
      select r.tenant_id, b.started_at, least(b.lease_until, now()) as ended_at
        from claimed c join before b on b.revision_id = c.revision_id join revisions r on r.id = c.revision_id
       where b.status = 'running'
    ), usage as (
      insert into build_usage (tenant_id, month, build_ms)
      select tenant_id, to_char(now() at time zone 'utc', 'YYYY-MM'), sum(greatest(0, extract(epoch from ended_at - started_at) * 1000))::bigint from "abandoned"
       group by tenant_id
      on conflict (tenant_id, month) do update set build_ms = build_usage.build_ms + excluded.build_ms
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, 'revision.status',
             '{"from":"AWAITING_BUILD","to":"BUILDING","because":"a build slot is free"}'::jsonb from moved
    ), due as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from "moved" order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )
    select b.pid, b.pid_started as "pidStarted" from claimed c left join before b on b.revision_id = c.revision_id;
