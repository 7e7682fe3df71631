import { optionalWhole, whole } from "./setting.ts";

/** What one key, one workspace and all agents together may take of this server. */
export const shareSettings = {
  rateLimitPerS: whole(
    "PIERHEAD_RATE_LIMIT",
    250,
    0,
    1_000_000,
    "Sustained requests per second per API key. A workspace may send twice as many, like the keys of an organization that name none. 0: no rate limits, also of wrong keys.",
  ),
  rateLimitBurst: whole(
    "PIERHEAD_RATE_LIMIT_BURST",
    5_000,
    1,
    1_000_000,
    "Burst size of that limit: requests one API key may send at once.",
  ),
  workspaceSharePercent: whole(
    "PIERHEAD_WORKSPACE_SHARE",
    50,
    1,
    100,
    "Percentage of this server's event streams, agent calls and upload space that one workspace may hold, of what the others leave. One key may hold half of it.",
  ),
  uploadSpaceMib: optionalWhole(
    "PIERHEAD_UPLOAD_SPACE_MIB",
    1,
    1_000_000_000,
    "Space for uploaded archives of all workspaces in MiB. Unset: half of the data directory's disk, or 1 TiB in a bucket.",
  ),
  diskReserveMib: optionalWhole(
    "PIERHEAD_DISK_RESERVE_MIB",
    0,
    1_000_000_000,
    "Free space in MiB of the data directory's disk below which uploads are refused and builds and agent logs pause. Unset: 512 MiB, or a twentieth of a smaller disk.",
  ),
  logLinesPerS: whole(
    "PIERHEAD_LOG_LINES_PER_S",
    2_000,
    0,
    1_000_000,
    "Log lines per second that the agents of one workspace may store; further ones are dropped and counted. 0: no limit.",
  ),
};
