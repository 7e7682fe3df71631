import { optional } from "./setting.ts";

/** Servers with a database for each deployment. */
export const agentDatabaseSettings = {
  agentPostgresUrl: optional(
    "PIERHEAD_AGENT_POSTGRES_URL",
    "none",
    "PostgreSQL server where each deployment gets its own database. The role must be allowed to create roles and databases.",
  ),
  agentPostgresAddress: optional(
    "PIERHEAD_AGENT_POSTGRES_ADDRESS",
    "from the URL",
    "`host:port` at which agents reach that server.",
  ),
  agentRedisUrl: optional(
    "PIERHEAD_AGENT_REDIS_URL",
    "none",
    "Redis >= 6.2 server where each deployment gets its own user and key prefix. The user must be allowed to manage users.",
  ),
  agentRedisAddress: optional(
    "PIERHEAD_AGENT_REDIS_ADDRESS",
    "from the URL",
    "`host:port` at which agents reach that server.",
  ),
};
