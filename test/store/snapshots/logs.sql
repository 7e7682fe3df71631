-- appendLogEntries
insert into log_entries (tenant_id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message, line_key)
    select d.tenant_id, e.deployment_id, e.revision_id, e.kind, e.replica_id, e.stream, e.level, e.logged_at, e.message, e.line_key
      from jsonb_to_recordset($1::jsonb)
        as e ("deployment_id" uuid, "revision_id" uuid, "kind" text, "replica_id" text, "stream" text, "level" smallint, "logged_at" timestamp with time zone, "message" text, "line_key" text)
      join deployments d on d.id = e.deployment_id and ($2::uuid is null or d.listener_id = $3::uuid)
    on conflict (deployment_id, line_key) where line_key is not null do nothing;
