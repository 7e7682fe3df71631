-- appendLogEntries
insert into log_entries (tenant_id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message, line_key)
    select d.tenant_id, e.deployment_id, e.revision_id, e.kind, e.replica_id, e.stream, e.level, e.logged_at, e.message, e.line_key
      from jsonb_to_recordset($1::jsonb)
        as e ("deployment_id" uuid, "revision_id" uuid, "kind" text, "replica_id" text, "stream" text, "level" smallint, "logged_at" timestamp with time zone, "message" text, "line_key" text)
      join deployments d on d.id = e.deployment_id and ($2::uuid is null or d.listener_id = $3::uuid)
    on conflict (deployment_id, line_key) where line_key is not null do nothing;

-- searchLogStep
with candidates as materialized (
      select id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message
        from log_entries
       where tenant_id = $1 and logged_at >= $2
         and (logged_at, id) < ($3::timestamptz, $4::bigint)
       order by logged_at desc, id desc limit $5
    ), scanned as materialized (
      select * from (
        select c.*, sum(octet_length(message)) over (order by logged_at desc, id desc rows unbounded preceding)
                    - octet_length(message) as bytes_before
          from candidates c) sized
       where bytes_before < $6
    ), matched as materialized (
      select s.* from scanned s
       where ($7::smallint[] is null or s.level = any($8::smallint[]))
         and ($9::text[] is null or s.kind = any($10::text[]))
         and ($11::text[] is null or s.stream = any($12::text[]))
         and ($13::uuid[] is null or s.deployment_id = any($14::uuid[]))
         and s.deployment_id <> all($15::uuid[])
         and ($16 or lower(s.replica_id) like any($17::text[]))
         and ($18 or s.replica_id is null
              or not lower(s.replica_id) like any($19::text[]))
         and ($20 or s.revision_id::text like any($21::text[])
              or exists (select from revisions r where r.id = s.revision_id and r.number = any($22::int[])))
         and ($23 or not (s.revision_id::text like any($24::text[])
              or exists (select from revisions r where r.id = s.revision_id and r.number = any($25::int[]))))
         and ($26 or lower(s.message) like all($27::text[]))
         and ($28 or not lower(s.message) like any($29::text[]))
         and ($30 or lower(s.message) like any($31::text[]))
         and ($32 or not lower(s.message) like any($33::text[]))
    ), found as (
      select * from matched order by logged_at desc, id desc limit $34
    ), counted as (
      select level, kind, deployment_id, floor(extract(epoch from logged_at) * 1000 / $35::float8)::bigint as step,
             count(*) as count
        from matched where $36 group by 1, 2, 3, 4
    ), last as (
      select logged_at, id from scanned order by logged_at, id limit 1
    )
    select (select count(*) from scanned) as read,
           (select count(*) from candidates) as candidates,
           (select count(*) from matched) as matches,
           (select floor(extract(epoch from logged_at) * 1000)::bigint from last) as last_ms,
           (select id from last) as last_id,
           coalesce((select json_agg(json_build_object(
               'id', f.id, 'deployment_id', f.deployment_id, 'deployment_name', d.name, 'revision_id', f.revision_id,
               'revision_number', r.number, 'kind', f.kind, 'replica_id', f.replica_id, 'stream', f.stream, 'level', f.level,
               'at_ms', floor(extract(epoch from f.logged_at) * 1000)::bigint, 'message', f.message)
               order by f.logged_at desc, f.id desc)
             from found f join deployments d on d.id = f.deployment_id left join revisions r on r.id = f.revision_id), '[]') as found,
           coalesce((select json_agg(json_build_object('level', c.level, 'kind', c.kind, 'deployment_id', c.deployment_id,
               'name', d.name, 'step', c.step, 'count', c.count))
             from counted c join deployments d on d.id = c.deployment_id), '[]') as counts;
