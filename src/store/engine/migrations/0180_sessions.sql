-- Who is signed in to the console: a digest of what the browser's cookie holds, and the key it stands for.
create table sessions (
  token_hash bytea primary key,
  api_key_id uuid not null references api_keys (id) on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index sessions_api_key on sessions (api_key_id);
create index sessions_expiry on sessions (expires_at);
